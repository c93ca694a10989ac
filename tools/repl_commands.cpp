// The slash commands: a row each.
#include <fmt/format.h>
#include <unistd.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/utf8.h"
#include "repl.h"
#include "repl_settings.h"
#include "report_text.h"
#include "transcript.h"

namespace quern::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostFileBytes = 16 << 20;
constexpr size_t kShownTokens = 32;

struct Command {
  const char* name;
  const char* argument;
  const char* help;
  void (*run)(Repl& repl, const std::string& argument);
};

[[noreturn]] void usage(const std::string& message) { throw Error(ErrorKind::kUsage, message); }

std::string expand_home(const std::string& path) {
  const char* home = std::getenv("HOME");
  return home && path.starts_with("~/") ? home + path.substr(1) : path;
}

void help(Repl& repl, const std::string&);

void system(Repl& repl, const std::string& text) {
  Conversation& c = repl.conversation();
  if (text.empty()) return repl.console().result(c.system().empty() ? "There is no system prompt; /system TEXT sets one." : c.system());
  c.set_system(text == "-" ? "" : text);
  repl.console().note(text == "-" ? "[the system prompt is gone]" : "[the system prompt is set; the conversation is read again with the next message]");
}

void regen(Repl& repl, const std::string&) { repl.regenerate(); }

void undo(Repl& repl, const std::string&) {
  const auto message = repl.conversation().undo();
  if (!message) usage("/undo: there is nothing to take back");
  repl.console().note(fmt::format("[taken back: the last message and its answer; left: {}]", counted(repl.conversation().messages().size() / 2, "turn")));
}

void edit(Repl& repl, const std::string&) {
  const auto message = repl.conversation().undo();
  if (!message) usage("/edit: there is no message yet");
  const bool has_file = repl.edit_again(*message);
  repl.console().note(fmt::format("[the last message is back on the line{}, its answer is gone: change it and press Enter]", has_file ? " (the file in front of it as it was)" : ""));
}

void clear(Repl& repl, const std::string&) {
  repl.conversation().clear();
  repl.console().note("[a new conversation; the system prompt stays]");
}

void save(Repl& repl, const std::string& path) {
  if (path.empty()) usage("/save needs a file name that ends with .json (to go on later) or .md (to read)");
  save_transcript(repl.conversation(), repl.engine().info(), expand_home(path));
  repl.console().note(fmt::format("[{} saved to {}]", counted(repl.conversation().messages().size(), "message"), path));
}

void load(Repl& repl, const std::string& path) {
  if (path.empty()) usage("/load needs the name of a file that /save wrote as JSON");
  load_transcript(repl.conversation(), expand_home(path));
  repl.console().note(fmt::format("[{} loaded from {}; the next message reads them in]", counted(repl.conversation().messages().size(), "message"), path));
}

void kv(Repl& repl, const std::string&) { repl.console().result(kv_report_text(repl.conversation().session().report(), repl.totals(), ::isatty(STDOUT_FILENO))); }

void stats(Repl& repl, const std::string&) {
  const Timings& t = repl.totals();
  const auto speed = [](size_t n, double ms) { return ms > 0 ? double(n) * 1000.0 / ms : 0.0; };
  repl.console().result(fmt::format("{}; {} tokens read at {:.0f}/s, {} re-used, {} written at {:.0f}/s\nmodel {}; {}, {}; template: {}\nseed of the next answer: {}\n", counted(repl.n_answers(), "answer"), with_commas(t.prefill_tokens),
                                    speed(t.prefill_tokens, t.prefill_ms), with_commas(t.reused_tokens), with_commas(t.decode_tokens), speed(t.decode_tokens, t.decode_ms), repl.engine().info().name,
                                    counted(size_t(repl.engine().threads()), "thread"), repl.engine().isa(), repl.conversation().template_name(), repl.next_seed()));
}

void set(Repl& repl, const std::string& argument) {
  if (argument.empty()) return repl.console().result(settings_text(repl.options()));
  std::string given = argument;
  std::replace(given.begin(), given.end(), '=', ' ');
  std::istringstream words(given);
  std::string name, value, more;
  words >> name;
  if (name == "parameter") words >> name;  // as ollama has it
  words >> value >> more;
  if (!more.empty()) usage(fmt::format("/set takes a name and one value, but '{}' follows '{}'", more, value));
  const std::string done = change_setting(repl.options(), name, value);
  if (name == "seed") repl.restart_seed();
  repl.console().note("[" + done + "]");
}

void think(Repl& repl, const std::string& argument) {
  if (argument == "show" || argument == "hide") {
    repl.options().hide_thinking = argument == "hide";
    return repl.console().note(fmt::format("[thinking is {} from now on]", argument == "hide" ? "hidden" : "shown"));
  }
  if (argument != "on" && argument != "off") usage("/think on|off asks the model to think or not; /think show|hide shows or hides what it thinks");
  repl.conversation().set_thinking(argument == "on");
  repl.console().note(fmt::format("[thinking is {}]", argument));
}

void context(Repl& repl, const std::string&) {
  const Conversation& c = repl.conversation();
  const size_t used = c.session().tokens().size(), n_ctx = c.session().n_ctx();
  std::string out = c.session().is_endless() ? fmt::format("{} tokens, by --kv-window\n", context_text(used, c.session()))
                                             : fmt::format("{} tokens ({:.1f} %), {} free\n", context_text(used, c.session()), 100.0 * double(used) / double(n_ctx), with_commas(n_ctx - used));
  out += fmt::format("{}{}; system prompt: {}; template: {}\n", counted(c.messages().size() / 2, "turn"), c.n_dropped() ? fmt::format(", of which the oldest {} have left the context", c.n_dropped() / 2) : "", c.system().empty() ? "none" : "yes",
                     c.template_name());
  repl.console().result(out);
}

void tokens(Repl& repl, const std::string& text) {
  const std::vector<TokenId> ids = text.empty() ? repl.conversation().tokens() : repl.engine().tokenize(text, false, false);
  const size_t first = text.empty() && ids.size() > kShownTokens ? ids.size() - kShownTokens : 0;
  std::string out = fmt::format("{} tokens{}\n", with_commas(ids.size()), first ? fmt::format("; the last {}:", kShownTokens) : "");
  for (size_t i = first; i < ids.size(); ++i) {
    std::string piece = utf8_repair(repl.engine().piece(ids[i]));
    for (size_t at = 0; (at = piece.find('\n', at)) != std::string::npos; at += 2) piece.replace(at, 1, "\\n");
    out += fmt::format("{:>8}  {}\n", ids[i], piece.empty() ? "(control)" : "'" + piece + "'");
  }
  repl.console().result(out);
}

void file(Repl& repl, const std::string& path) {
  if (path.empty()) usage("/file needs a path; the file's text goes in front of your next message ('-' takes it away)");
  if (path == "-") {
    if (!repl.detach()) usage("/file -: no file stands in front of your next message");
    return repl.console().note("[no file goes in front of your next message]");
  }
  const fs::path place = expand_home(path);
  std::error_code error;
  if (fs::exists(place, error) && !fs::is_regular_file(place, error)) usage(fmt::format("/file: '{}' is no regular file", path));
  if (const uint64_t size = fs::file_size(place, error); !error && size > kMostFileBytes) usage(fmt::format("/file: '{}' has {}; at most {} are taken", path, bytes_text(size), bytes_text(kMostFileBytes)));
  std::ifstream in(place, std::ios::binary);
  std::ostringstream bytes;
  if (in) bytes << in.rdbuf();
  if (!in) usage(fmt::format("/file: '{}' cannot be read", path));
  const std::string text = bytes.str();
  if (text.find('\0') != std::string::npos || utf8_repair(text) != text) usage(fmt::format("/file: '{}' is not UTF-8 text", path));
  const size_t n_tokens = repl.engine().tokenize(text, false, false).size();
  const Session& session = repl.conversation().session();
  if (!session.is_endless() && n_tokens >= session.n_ctx()) usage(fmt::format("/file: '{}' has {}, and the context holds {}; it was not taken", path, counted(n_tokens, "token"), with_commas(session.n_ctx())));
  repl.attach(fmt::format("{}:\n```\n{}{}```\n\n", fs::path(path).filename().string(), text, text.ends_with('\n') ? "" : "\n"));
  repl.console().note(fmt::format("[{}: {}, {}, goes in front of your next message]", path, counted(size_t(std::count(text.begin(), text.end(), '\n')), "line"), counted(n_tokens, "token")));
}

void leave(Repl& repl, const std::string&) { repl.leave(); }

/// What the same command is called elsewhere; understood, and in no list.
constexpr std::pair<const char*, const char*> kOtherNames[] = {{"/quit", "/exit"}, {"/bye", "/exit"}, {"/?", "/help"}, {"/read", "/file"}};

constexpr Command kCommands[] = {
    {"/help", "", "this list", help},
    {"/system", "[TEXT]", "show or set the system prompt ('-' takes it away)", system},
    {"/regen", "", "another answer to the last message", regen},
    {"/undo", "", "take the last message and its answer back", undo},
    {"/edit", "", "take them back and put the message on the line to change it", edit},
    {"/clear", "", "start anew", clear},
    {"/save", "FILE", "save the conversation as .json (to go on later) or .md (to read)", save},
    {"/load", "FILE", "go on with a conversation saved as .json", load},
    {"/file", "PATH", "put a file's text in front of your next message ('-' takes it away)", file},
    {"/set", "[NAME VALUE]", "show or change temp, top-k, top-p, min-p, repeat-penalty, repeat-last-n, seed, max", set},
    {"/think", "on|off|show|hide", "ask a reasoning model to think or not; show or hide what it thinks", think},
    {"/context", "", "how full the context is", context},
    {"/kv", "", "what the KV cache holds and costs", kv},
    {"/stats", "", "tokens and speeds so far, model, template, seed", stats},
    {"/tokens", "[TEXT]", "the tokens of a text, or the last ones of the conversation", tokens},
    {"/exit", "", "leave (also Ctrl-D)", leave},
};

void help(Repl& repl, const std::string&) {
  std::string out;
  for (const Command& command : kCommands) out += fmt::format("  {:<8} {:<17} {}\n", command.name, command.argument, command.help);
  out += "Several lines: paste them, end a line with \\, or write between \"\"\" and \"\"\". A message that begins with / is written with //.\n"
         "Ctrl-C stops an answer; at an empty prompt, twice leaves.\n";
  repl.console().result(out);
}

std::vector<std::string> matching(const std::vector<std::string>& texts, const std::string& begin) {
  std::vector<std::string> out;
  std::copy_if(texts.begin(), texts.end(), std::back_inserter(out), [&](const std::string& text) { return text.starts_with(begin); });
  return out;
}

/// How many characters differ, are missing or too many (Levenshtein).
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t(0));
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) diagonal = std::exchange(row[j + 1], std::min({row[j + 1] + 1, row[j] + 1, diagonal + (a[i] != b[j])}));
  }
  return row[b.size()];
}

/// The command that a mistyped one was meant to be: one it begins, or one that differs in at most two places; empty for none.
std::string nearest_command(const std::string& typed) {
  constexpr size_t kMostDifferences = 2;
  std::string nearest;
  size_t least = kMostDifferences + 1;
  for (const Command& command : kCommands) {
    const std::string_view name = command.name;
    const size_t n = typed.size() > 2 && name.starts_with(typed) ? 1 : distance(typed, name);
    if (n < least && n + 2 < name.size()) {
      least = n;
      nearest = name;
    }
  }
  return nearest;
}

std::vector<std::string> matching_files(const std::string& command, const std::string& path) {
  const fs::path wanted = expand_home(path);
  std::vector<std::string> out;
  std::error_code ignored;
  const std::string typed_folder = path.substr(0, path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1);
  for (const auto& entry : fs::directory_iterator(wanted.has_parent_path() ? wanted.parent_path() : fs::path("."), ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(wanted.filename().string())) out.push_back(command + " " + typed_folder + name + (entry.is_directory(ignored) ? "/" : ""));
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

void Repl::command(const std::string& line) {
  const size_t end = line.find_first_of(" \t\n");
  const std::string name = line.substr(0, end);
  const size_t begin = end == std::string::npos ? end : line.find_first_not_of(" \t\n", end);
  std::string argument = begin == std::string::npos ? "" : line.substr(begin);
  argument.erase(argument.find_last_not_of(" \t\n") + 1);
  for (const Command& row : kCommands) {
    if (name != row.name) continue;
    if (!*row.argument && !argument.empty()) usage(fmt::format("{} stands alone, but '{}' follows it; a message that begins with / is written with //", name, argument.substr(0, argument.find('\n'))));
    return row.run(*this, argument);
  }
  for (const auto& [other, known] : kOtherNames) {
    if (name == other) return command(known + (argument.empty() ? "" : " " + argument));
  }
  const std::string nearest = nearest_command(name);
  usage(fmt::format("there is no command '{}'{}; /help lists them, and a message that begins with / is written with //", name, nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest)));
}

std::vector<std::string> complete_input(const std::string& before_cursor) {
  if (!before_cursor.starts_with('/')) return {};
  std::vector<std::string> names;
  const size_t space = before_cursor.find(' ');
  if (space == std::string::npos) {
    for (const Command& command : kCommands) names.push_back(command.name + std::string(*command.argument ? " " : ""));
    return matching(names, before_cursor);
  }
  const std::string command = before_cursor.substr(0, space), argument = before_cursor.substr(space + 1);
  if (command == "/file" || command == "/save" || command == "/load") return matching_files(command, argument);
  if (command == "/set") {
    for (const std::string& name : setting_names()) names.push_back("/set " + name + " ");
  } else if (command == "/think") {
    for (const char* word : {"on", "off", "show", "hide"}) names.push_back(command + " " + word);
  }
  return matching(names, before_cursor);
}

}  // namespace quern::cli
