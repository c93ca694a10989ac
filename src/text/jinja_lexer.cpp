// The lexer's two halves: text between tags with its white space rules, and the tokens inside tags.
#include "text/jinja_lexer.h"

#include <algorithm>
#include <cctype>

#include "base/check.h"
#include "base/utf8.h"
#include "text/jinja_text.h"

namespace quern::jinja {

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}

bool all_space(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t n = space_length(text, i);
    if (n == 0) return false;
    i += n;
  }
  return true;
}

std::string_view right_stripped(std::string_view text) {
  size_t end = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t n = space_length(text, i);
    i += n ? n : char_length(text, i);
    if (n == 0) end = i;
  }
  return text.substr(0, end);
}

/// Line ends become \n, and one at the very end goes, as in jinja2 without keep_trailing_newline.
std::string normalize(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(TokenList& list) : list_(list), source_(list.source) {}

  void run() {
    while (pos_ < source_.size()) {
      const size_t tag = find_tag();
      if (tag == std::string_view::npos) {
        add_data(source_.substr(pos_));
        pos_ = source_.size();
        break;
      }
      read_tag(tag);
    }
    add(TokenType::End, {});
  }

 private:
  size_t find_tag() const {
    for (size_t i = source_.find('{', pos_); i != source_.npos && i + 1 < source_.size();
         i = source_.find('{', i + 1)) {
      const char c = source_[i + 1];
      if (c == '{' || c == '%' || c == '#') return i;
    }
    return source_.npos;
  }

  void add(TokenType type, std::string_view text) { list_.tokens.push_back({type, line_, text}); }

  void add_data(std::string_view text) {
    if (!text.empty()) add(TokenType::Data, text);
  }

  /// Moves to `pos`, counting lines.
  void advance(size_t pos) {
    line_ += uint32_t(std::count(source_.begin() + std::ptrdiff_t(pos_), source_.begin() + std::ptrdiff_t(pos), '\n'));
    line_starting_ = pos > 0 && pos > pos_ ? source_[pos - 1] == '\n' : line_starting_;
    pos_ = pos;
  }

  size_t skip_space(size_t at) const {
    for (size_t n; at < source_.size() && (n = space_length(source_, at)) != 0;) at += n;
    return at;
  }

  bool at(size_t position, std::string_view text) const { return source_.substr(position, text.size()) == text; }

  /// The text before a tag whose sign is '-', '+' or 0, as it will be printed.
  std::string_view before_tag(std::string_view text, char sign, bool variable) const {
    if (sign == '-') return right_stripped(text);
    if (sign == '+' || variable) return text;
    const size_t newline = text.rfind('\n');
    const size_t begin = newline == text.npos ? 0 : newline + 1;
    if ((newline != text.npos || line_starting_) && begin < text.size() && all_space(text.substr(begin)))
      return text.substr(0, begin);
    return text;
  }

  void read_tag(size_t tag) {
    const char type = source_[tag + 1];
    size_t inner = tag + 2;
    const char sign =
        inner < source_.size() && (source_[inner] == '-' || source_[inner] == '+') ? source_[inner] : char(0);
    if (sign) ++inner;
    add_data(before_tag(source_.substr(pos_, tag - pos_), sign, type == '{'));
    advance(tag);
    if (type == '#') {
      skip_comment(inner);
    } else if (size_t body; type == '%' && (body = raw_begin(inner)) != 0) {
      read_raw(body);
    } else {
      add(type == '{' ? TokenType::VarBegin : TokenType::BlockBegin, source_.substr(tag, 2));
      const uint32_t opened = line_;
      advance(inner);
      read_inside(type == '%', opened);
    }
  }

  void skip_comment(size_t begin) {
    const size_t close = source_.find("#}", begin);
    if (close == source_.npos)
      throw_error(ErrorKind::kModel, "chat template, line {}: the comment '{{#' is not closed", line_);
    size_t end = close + 2;
    const char sign = close > begin ? source_[close - 1] : char(0);
    if (sign == '-') {
      end = skip_space(end);
    } else if (sign != '+' && at(end, "\n")) {
      ++end;
    }
    advance(end);
  }

  /// Where the text of {% raw %} begins, if the tag at `inner` is one; otherwise 0.
  size_t raw_begin(size_t inner) const {
    size_t i = skip_space(inner);
    if (!at(i, "raw")) return 0;
    i = skip_space(i + 3);
    if (at(i, "-%}")) return skip_space(i + 3);
    return at(i, "%}") ? i + 2 : 0;
  }

  void read_raw(size_t body) {
    const uint32_t opened = line_;
    advance(body);
    for (size_t tag = source_.find("{%", body); tag != source_.npos; tag = source_.find("{%", tag + 1)) {
      size_t i = tag + 2;
      const char sign = i < source_.size() && (source_[i] == '-' || source_[i] == '+') ? source_[i] : char(0);
      i = skip_space(sign ? i + 1 : i);
      if (!at(i, "endraw")) continue;
      i = skip_space(i + 6);
      size_t end = 0;
      if (at(i, "-%}")) end = skip_space(i + 3);
      if (at(i, "+%}")) end = i + 3;
      if (at(i, "%}")) end = i + 2 + (at(i + 2, "\n") ? 1 : 0);
      if (end == 0) continue;
      add_data(before_tag(source_.substr(body, tag - body), sign, false));
      advance(end);
      return;
    }
    throw_error(ErrorKind::kModel, "chat template, line {}: '{{% raw %}}' is not closed by '{{% endraw %}}'", opened);
  }

  /// The tokens up to the end of the tag.
  void read_inside(bool block, uint32_t opened) {
    std::string brackets;
    while (true) {
      advance(skip_space(pos_));
      if (pos_ >= source_.size()) {
        throw_error(ErrorKind::kModel, "chat template, line {}: the tag '{}' is not closed by '{}'", opened,
                    block ? "{%" : "{{", block ? "%}" : "}}");
      }
      if (brackets.empty() && tag_end(block)) return;
      if (is_digit(source_[pos_])) {
        read_number();
      } else if (is_name_start(source_[pos_])) {
        size_t end = pos_;
        while (end < source_.size() && (is_name_start(source_[end]) || is_digit(source_[end]))) ++end;
        add(TokenType::Name, source_.substr(pos_, end - pos_));
        pos_ = end;
      } else if (source_[pos_] == '"' || source_[pos_] == '\'') {
        read_string();
      } else {
        read_operator(brackets);
      }
    }
  }

  bool tag_end(bool block) {
    const std::string_view close = block ? "%}" : "}}";
    const TokenType type = block ? TokenType::BlockEnd : TokenType::VarEnd;
    const bool minus = source_[pos_] == '-' && at(pos_ + 1, close);
    const bool plus = block && source_[pos_] == '+' && at(pos_ + 1, close);
    if (!minus && !plus && !at(pos_, close)) return false;
    add(type, close);
    size_t end = pos_ + 2 + (minus || plus ? 1 : 0);
    if (minus) {
      end = skip_space(end);
    } else if (block && !plus && at(end, "\n")) {
      ++end;
    }
    advance(end);
    return true;
  }

  size_t digits_end(size_t i) const {
    while (i < source_.size() &&
           (is_digit(source_[i]) || (source_[i] == '_' && i + 1 < source_.size() && is_digit(source_[i + 1]))))
      ++i;
    return i;
  }

  void read_number() {
    const std::string_view two = source_.substr(pos_, 2);
    if (two.size() == 2 && two[0] == '0' && std::string_view("xXoObB").find(two[1]) != two.npos) {
      size_t end = pos_ + 2;
      while (end < source_.size() && (std::isxdigit(static_cast<unsigned char>(source_[end])) || source_[end] == '_'))
        ++end;
      add(TokenType::Integer, source_.substr(pos_, end - pos_));
      pos_ = end;
      return;
    }
    size_t end = digits_end(pos_);
    TokenType type = TokenType::Integer;
    const bool after_dot = pos_ > 0 && source_[pos_ - 1] == '.';
    if (!after_dot && end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
      type = TokenType::Float;
      end = digits_end(end + 1);
    }
    if (!after_dot && end + 1 < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      const size_t exponent = end + 1 + (source_[end + 1] == '+' || source_[end + 1] == '-' ? 1 : 0);
      if (exponent < source_.size() && is_digit(source_[exponent])) {
        type = TokenType::Float;
        end = digits_end(exponent);
      }
    }
    add(type, source_.substr(pos_, end - pos_));
    pos_ = end;
  }

  void read_string() {
    const char quote = source_[pos_];
    size_t end = pos_ + 1;
    bool escaped = false;
    while (end < source_.size() && source_[end] != quote) {
      if (source_[end] == '\\') {
        escaped = true;
        ++end;
      }
      ++end;
    }
    if (end >= source_.size())
      throw_error(ErrorKind::kModel, "chat template, line {}: the string that begins with {} is not closed", line_,
                  quote);
    std::string_view text = source_.substr(pos_ + 1, end - pos_ - 1);
    if (escaped) {
      list_.decoded.push_back(unescape(text));
      text = list_.decoded.back();
    }
    add(TokenType::String, text);
    advance(end + 1);
  }

  /// Python's escapes in a string literal.
  std::string unescape(std::string_view text) const {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\') {
        out += text[i];
        continue;
      }
      const char c = text[++i];
      constexpr std::string_view kNames = "ntrabfv\\'\"", kValues = "\n\t\r\a\b\f\v\\'\"";
      if (const size_t simple = kNames.find(c); simple != kNames.npos) {
        out += kValues[simple];
      } else if (c == '\n') {
        continue;  // a continued line
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const size_t n = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        append_code_point(out, text.substr(i + 1, n), n, 16, c);
        i += n;
      } else if (c >= '0' && c <= '7') {
        size_t n = 1;
        while (n < 3 && i + n < text.size() && text[i + n] >= '0' && text[i + n] <= '7') ++n;
        append_code_point(out, text.substr(i, n), n, 8, c);
        i += n - 1;
      } else {
        out += '\\';
        out += c;
      }
    }
    return out;
  }

  void append_code_point(std::string& out, std::string_view digits, size_t n_digits, uint32_t base, char escape) const {
    uint64_t value = 0;
    bool good = digits.size() == n_digits;
    for (const char digit : digits) {
      const char low = char(digit | 0x20);
      const uint32_t v = is_digit(digit)            ? uint32_t(digit - '0')
                         : low >= 'a' && low <= 'f' ? uint32_t(low - 'a' + 10)
                                                    : 99;
      good = good && v < base;
      value = value * base + v;
    }
    if (!good || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
      throw_error(ErrorKind::kModel, "chat template, line {}: the escape '\\{}' in a string does not name a character",
                  line_, escape);
    }
    utf8_append(out, uint32_t(value));
  }

  void read_operator(std::string& brackets) {
    constexpr std::string_view kTwo[] = {"//", "**", "==", "!=", ">=", "<="};
    constexpr std::string_view kOne = "+-/*%~[](){}><=.:|,;";
    size_t n = 0;
    for (const std::string_view op : kTwo) {
      if (at(pos_, op)) n = 2;
    }
    const char c = source_[pos_];
    if (n == 0 && kOne.find(c) != kOne.npos) n = 1;
    if (n == 0) {
      throw_error(ErrorKind::kModel, "chat template, line {}: the character '{}' has no meaning here", line_,
                  source_.substr(pos_, char_length(source_, pos_)));
    }
    if (c == '(' || c == '[' || c == '{') brackets += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (brackets.empty() || brackets.back() != c)
        throw_error(ErrorKind::kModel, "chat template, line {}: unexpected '{}'", line_, c);
      brackets.pop_back();
    }
    add(TokenType::Operator, source_.substr(pos_, n));
    pos_ += n;
  }

  TokenList& list_;
  const std::string_view source_;
  size_t pos_ = 0;
  uint32_t line_ = 1;
  bool line_starting_ = true;
};

}  // namespace

void tokenize(std::string_view source, TokenList& list) {
  list.source = normalize(source);
  Lexer(list).run();
}

}  // namespace quern::jinja
