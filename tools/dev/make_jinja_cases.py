#!/usr/bin/env python3
"""make_jinja_cases.py > tests/text/jinja_cases.json

What jinja2 3.1.6 makes of small templates, one construct each, in the environment that Hugging Face transformers sets up for chat
templates. Needs the jinja2 package; the test itself reads only the JSON. `error` is the name of the Python exception.
"""
import json
import sys

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_pass"), [], [], body).set_lineno(line)

    def _pass(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


VARIABLES = {
    "s": "Hello, World", "u": "Grüße, żółw 日本語 🎉", "empty": "", "n": 7, "neg": -3, "f": 2.5, "t": True, "no": None,
    "l": [3, 1, 2], "words": ["b", "A", "c"], "nested": [[1, 2], [3, [4, None]]],
    "d": {"b": 1, "a": "x", "C": [True, None, 1.0]},
    "people": [{"name": "Ann", "age": 30}, {"name": "bob", "age": 25, "city": {"zip": "1"}}, {"name": "Cid", "age": 30}],
    "multi": "one\n two\n\nthree\n", "spaced": "  \t pad ded \n", "html": "<a href='x'>&\"</a>",
    "items_key": {"items": [1], "keys": 2, "x": 3}, "numbers": [1, 2.0, 2.5, -1, 1e20, 1e-7, 123456789012345680.0, 0.1],
}

GROUPS = {
    "text and white space": """
        plain
        {{ s }}!
        a\\n{% if t %}\\nb\\n{% endif %}\\nc
        a\\n  {% if t %}\\n  b\\n  {% endif %}\\nc\\n
        a\\n  {%+ if t %}\\n  b\\n  {%+ endif +%}\\nc\\n\\n
        a \\n {%- if t -%} \\n b \\n {%- endif -%} \\n c
        a  {{- s -}}  b
        a\\n  {{ s }}\\n\\n
        a {# comment #} b\\n  {# whole line #}\\nc
        a {#- c -#} b
        a {#- c +#}\\n b
        x{% raw %}\\n {{ no }} {% if %} \\n{% endraw %}\\ny
        x {%- raw -%} \\n {{ x }} {%- endraw -%} \\n y
        {{ '}}' }}{{ "%}" }}{{ {'a': {'b': 1}}['a']['b'] }}
        \\r\\nA\\r{{ n }}\\r\\n
        {% set x = 1 %}\\n\\n{{ x }}
        {%if t%}1{%endif%}{%-if t-%} 2 {%-endif%}
        {{ 1 }}\\n{{ 2 }}
        \\n
        {{ s }}  \\n   {%- for x in l %}\\n{{ x }}\\n{%- endfor %}\\n
        { { {a} #} %} }}
    """,
    "literals": r"""
        {{ 1 }} {{ 1_000 }} {{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1.5 }} {{ 1e3 }} {{ 1.5e-7 }} {{ 2E+5 }}
        {{ 'a\nb\tc\\d\'e' }}{{ "q\"q" }}{{ '\x41\u00e9\U0001F389\101\q\0' }}
        {{ 'a' 'b' "c" }}
        {{ true }} {{ True }} {{ false }} {{ none }} {{ None }}
        {{ [1, 'a', none, true, 1.0, [], {}, ()] }}
        {{ (1,) }} {{ () }} {{ (1, 2) }} {{ 1, 2 }} {{ [1,] }} {{ {'a': 1,} }}
        {{ {'a': 1, 2: 'b', none: [1], 1.5: true, (1, 2): 3} }}
        {{ ["it's", 'say "x"', 'both \' and "', 'tab\t', 'nl\n', 'bs\\', 'é', '\x00\x7f', '\u200b', '\xa0'] }}
        {{ numbers }} {{ -0.0 }} {{ 100000000000000000000.0 }} {{ 1e16 }} {{ 1e15 }} {{ 12345.678e10 }} {{ 5e-324 }} {{ 0.0001 }} {{ 0.00001 }}
        {{ {1: 'a', true: 'b', 1.0: 'c'} }} {{ {'a': 1, 'a': 2} }}
    """,
    "operators": """
        {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 6 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2 ** 3 ** 2 }}
        {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ -n }} {{ +n }} {{ - -n }} {{ 1.0 + 2 }} {{ 0.1 + 0.2 }}
        {{ true + true }} {{ 'a' * 3 }} {{ 3 * 'ab' }} {{ [1] * 2 + [2] }} {{ (1,) + (2,) }} {{ 'a' * -1 }}|
        {{ 'a' + 'b' }} {{ 'a' ~ 1 ~ none ~ 1.5 ~ true ~ missing ~ [1] }} {{ 1 ~ 2 * 3 }}{{ 'x' + 1 ~ 2 }}
        {{ 1 == 1.0 }} {{ 1 == true }} {{ 'a' == 'a' }} {{ [1, 2] == [1, 2] }} {{ (1,) == [1] }} {{ {'a': 1, 'b': 2} == {'b': 2, 'a': 1} }} {{ none == false }}
        {{ missing == missing2 }} {{ missing == none }} {{ missing != '' }}
        {{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 3 > 2 >= 2 != 1 }} {{ 'a' < 'b' }} {{ 'B' < 'a' }} {{ [1, 2] < [1, 3] }} {{ (1,) <= (1, 0) }}
        {{ 'ell' in s }} {{ 'z' not in s }} {{ 2 in l }} {{ 'a' in d }} {{ 1 in d }} {{ 'x' in missing }} {{ '' in '' }} {{ 1.0 in l }} {{ [1,2] in nested }}
        {{ not t }} {{ not not empty }} {{ t and n }} {{ empty or 'x' }} {{ no and t }} {{ 0 or none or '' }}| {{ not 1 == 2 }}
        {{ 'yes' if t else 'no' }} {{ 'yes' if no }}|{{ 1 if no else 2 if no else 3 }} {{ (1 if t else 2) + 1 }}
        {{ n is defined and n > 3 or missing.x }}
        {{ 1 if t else missing.x.y }}
        {{ -l[0] }} {{ -3 | abs }} {{ 2 * 3 ~ 'a' }} {{ 1 - 1 - 1 }} {{ 2 ** 2 ** 3 }} {{ 10 % 4 * 2 }}
        {{ 'a' 'b' ~ 'c' }} {{ l | length + 1 }} {{ not l | length }} {{ n is odd and l is iterable }}
        {{ 1 + 'a' }}
        {{ 'a' + 1 }}
        {{ 'a' + none }}
        {{ [1] + (2,) }}
        {{ missing + 'a' }}
        {{ 1 < 'a' }}
        {{ 1 // 0 }}
        {{ 1 % 0 }}
        {{ 1 in 5 }}
        {{ 1 in 'abc' }}
        {{ none + 1 }}
        {{ missing.a.b }}
        {{ missing['a'] }}
        {{ d.nope }}|{{ d.nope is defined }}|{{ d['nope'] }}|{{ l[9] }}|{{ s[99] }}|{{ no.x }}|{{ n.x }}
        {{ d.nope.deeper }}
        {{ missing() }}
        {{ s.nomethod() }}
        {{ n() }}
        {{ {[1]: 2} }}
        {{ 'é' > 'z' }} {{ '日本' > '🎉' }}
    """,
    "items and slices": """
        {{ l[0] }} {{ l[-1] }} {{ l[1:] }} {{ l[:-1] }} {{ l[::-1] }} {{ l[::2] }} {{ l[5:] }} {{ l[-2:] }} {{ l[-9:2] }} {{ l[2:0:-1] }}
        {{ s[0] }} {{ s[-1] }} {{ s[1:4] }} {{ s[::-1] }} {{ s[:-3] }} {{ s[-3:] }} {{ s[::3] }} {{ s[20:] }}| {{ s[5:2] }}|
        {{ u[0:5] }} {{ u[2] }} {{ u[-1] }} {{ u[::-1] }} {{ u | length }} {{ u[7:11] }} {{ u[::2] }} {{ u[-3:-1] }}
        {{ (1, 2, 3)[1:] }} {{ range(5)[1:3] | list }} {{ range(5)[2] }} {{ l[t] }}
        {{ d.a }} {{ d['a'] }} {{ d.b }} {{ d.C[2] }} {{ people[1].city.zip }} {{ people[0]['name'] }} {{ people.0.name }}
        {{ items_key.items() | list }} {{ items_key['items'] }} {{ items_key.x }} {{ items_key.keys() | list }} {{ items_key['keys'] }}
        {{ l[none:2] }} {{ l[missing | default(1):] }}
        {{ l['a'] }}|{{ d[0] }}|{{ s.upper is callable }}
        {{ l[1:2][0] }} {{ 'abc'[1] }} {{ [1,2,3][-1] }} {{ 'a,b'.split(',')[1] }} {{ {'k': [5]}.k[0] }}
        {{ l[::0] }}
        {{ l[:'a'] }}
    """,
    "if, for, set": """
        {% if n > 5 %}big{% elif n %}small{% else %}zero{% endif %}
        {% if missing %}1{% elif no %}2{% elif l %}3{% endif %}
        {% for x in l %}{{ x }},{% endfor %}
        {% for x in [] %}{{ x }}{% else %}none{% endfor %}
        {% for x in missing %}{{ x }}{% else %}none{% endfor %}
        {% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }};{% endfor %}
        {% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {{ loop.previtem is defined }}{{ loop.nextitem is defined }};{% endfor %}
        {% for x in l %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }} {% endfor %}
        {% for x in l %}{% for y in l %}{{ loop.depth }}{{ loop.depth0 }}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}
        {% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}
        {% for k in d %}{{ k }}{% endfor %}{% for c in 'aé' %}[{{ c }}]{% endfor %}
        {% for a, (b, c) in [(1, (2, 3)), [4, [5, 6]]] %}{{ a }}{{ b }}{{ c }};{% endfor %}
        {% for x in l if x > 1 %}{{ x }}{{ loop.index }}{{ loop.last }};{% else %}no{% endfor %}
        {% for x in l if x > 9 %}{{ x }}{% else %}no{% endfor %}
        {% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}
        {% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% else %}else{% endfor %}
        {% for x in range(3) %}{% for y in range(3) %}{% if y == 1 %}{% break %}{% endif %}{{ x }}{{ y }} {% endfor %}{% endfor %}
        {% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }},{% endfor %}{{ x }}
        {% set x = 1 %}{% if t %}{% set x = 2 %}{% endif %}{{ x }}
        {% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d2) = 'xy' %}{{ c }}{{ d2 }}
        {% set ns = namespace(x=0, y=[]) %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{{ ns.y }}{{ ns.z }}|{{ ns.z is defined }}
        {% set ns = namespace() %}{% set ns.a = 1 %}{{ ns.a }}{% set ns = namespace(d) %}{{ ns.a }}
        {% set b %}  block {{ n }} {% endset %}[{{ b }}]{% set c | upper | trim %} up {% endset %}[{{ c }}]
        {% set b %}{% set inner = 1 %}{{ inner }}{% endset %}{{ b }}{{ inner }}
        {% set t1 = (1, 2) %}{{ t1 }}{% set x = 1, 2 %}{{ x }}{% set y = [1] + [2] %}{{ y }}
        {% with a = 1, b = n %}{{ a }}{{ b }}{% set c = 3 %}{{ c }}{% endwith %}{{ a }}{{ c }}
        {% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q }}
        {% filter upper %}abc {{ s }}{% endfilter %}{% filter replace('a', 'b') | upper %}a{% endfilter %}
        {% print n %}{% generation %}g{{ n }}{% set gg = 1 %}{% endgeneration %}{{ gg }}
        {% for x in l %}{{ x }}{% set x = 9 %}{{ x }}{% endfor %}{{ x }}
        {% for loop2 in l %}{{ loop.index }}{% endfor %}{{ loop }}
        {% set loop = 5 %}{{ loop }}{% for x in l %}{{ loop.index }}{% endfor %}{{ loop }}
        {% for x in d.items() if x[0] != 'a' %}{{ x }}{% endfor %}
        {% for x in l | sort %}{{ x }}{% endfor %}{% for x in (1, 2) + (3,) %}{{ x }}{% endfor %}{% for x in 1, 2 %}{{ x }}{% endfor %}
        {% for a, b in [[1]] %}{% endfor %}
        {% for a in 5 %}{% endfor %}
        {% for a in none %}{% endfor %}
        {% set d.x = 1 %}
        {% set q.x = 1 %}
        {% if missing.x %}{% endif %}
        {% if n == 7 and not no and (l[0] == 3 or missing.x.y) %}ok{% endif %}
    """,
    "macros and calls": """
        {% macro m(a, b=2, c='x') %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(1, c=5) }}{{ m(b=1, a=0) }}{{ m() }}
        {% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}
        {% macro m(x) %}{% if x > 0 %}{{ x }}{{ m(x - 1) }}{% endif %}{% endmacro %}{{ m(4) }}
        {% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}
        {% macro m() %}{{ g }}{% endmacro %}{% set g = 5 %}{{ m() }}{% set g = 6 %}{{ m() }}
        {% macro m() %}{% set inner = 1 %}{{ inner }}{% endmacro %}{{ m() }}{{ inner }}|{{ m() | length }}|{{ m() + 'x' }}|{{ m }}
        {% macro w(a) %}<{{ caller() }}{{ a }}>{% endmacro %}{% call w(1) %}body{{ n }}{% endcall %}
        {% macro w() %}{{ caller(1, 2) }}{{ caller(3, 4) }}{% endmacro %}{% call(x, y=0) w() %}{{ x }}-{{ y }};{% endcall %}
        {% macro m(a) %}{{ a is defined }}{{ a }}{% endmacro %}{{ m() }}{{ m(none) }}
        {% macro a() %}A{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}
        {% for x in l %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}
        {% macro m(a) %}{{ a }}{% endmacro %}{{ m(*[1]) }}{{ m(**{'a': 2}) }}{{ m(a=3) }}
        {% set f = s.upper %}{{ f() }}{% set g = range %}{{ g(3) | list }}
        {% macro m(x) %}{% for i in range(x) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}{% endmacro %}{{ m(5) }}
        {% macro m(a) %}{% endmacro %}{{ m(1, 2) }}
        {% macro m(a) %}{% endmacro %}{{ m(x=2) }}
        {% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}
        {{ dict(a=1, b=2) }}{{ dict([('x', 1)]) }}{{ dict({'a': 1}, b=2) }}{{ range(2, 8, 3) | list }}{{ range(3, 0, -1) | list }}{{ range(0) | list }}{{ range(3) }}{{ range(1, 4) }}
        {{ range(10 ** 9) }}
        {{ raise_exception('no ' ~ n) }}
        {{ range('a') }}
        {{ range(1, 5, 0) }}
    """,
    "string methods": r"""
        [{{ spaced.strip() }}][{{ spaced.lstrip() }}][{{ spaced.rstrip() }}][{{ 'xxaxx'.strip('x') }}][{{ 'abcba'.strip('ab') }}][{{ 'éaé'.lstrip('é') }}]
        {{ 'a,b,,c'.split(',') }}{{ ' a  b '.split() }}{{ 'a b c'.split(' ', 1) }}{{ 'a b c'.split(none, 1) }}{{ ''.split() }}{{ ''.split(',') }}{{ 'a--b'.split('--') }}{{ 'a b c'.split(maxsplit=1) }}{{ 'a,b'.split(sep=',') }}
        {{ 'a,b,c'.rsplit(',', 1) }}{{ ' a b  c '.rsplit(none, 1) }}{{ 'a b'.rsplit() }}{{ 'abc'.rsplit('x') }}
        {{ multi.splitlines() }}{{ multi.splitlines(true) }}{{ 'a\r\nb\rc'.splitlines() }}{{ ''.splitlines() }}
        {{ 'a=b=c'.partition('=') }}{{ 'a=b=c'.rpartition('=') }}{{ 'x'.partition('=') }}{{ 'x'.rpartition('=') }}
        {{ s.replace('l', 'L') }}{{ s.replace('l', '', 1) }}{{ 'abc'.replace('', '-') }}{{ 'aaa'.replace('aa', 'b') }}{{ u.replace('ü', 'ue') }}{{ 'abc'.replace('', '-', 2) }}
        {{ s.upper() }}{{ s.lower() }}{{ s.title() }}{{ s.capitalize() }}{{ s.swapcase() }}{{ "they're x-y".title() }}{{ 'ÀÉß straße'.upper() }}{{ 'ÀÉΩЖ'.lower() }}{{ 'αβγ жзи'.upper() }}{{ 'ÿ'.upper() }}{{ 'hELLO wORLD'.capitalize() }}
        {{ s.startswith('Hell') }}{{ s.startswith(('x', 'H')) }}{{ s.endswith('d') }}{{ s.endswith(('x', 'y')) }}{{ s.startswith('W', 7) }}{{ ''.startswith('') }}{{ s.endswith('o', 0, 5) }}
        {{ s.find('o') }}{{ s.rfind('o') }}{{ s.find('zz') }}{{ s.index('W') }}{{ s.count('l') }}{{ u.find('ż') }}{{ s.find('o', 5) }}{{ s.find('o', -3) }}{{ u.rfind('e') }}{{ 'aaaa'.count('aa') }}{{ 'abc'.count('') }}
        {{ ', '.join(['a', 'b']) }}{{ ''.join([]) }}{{ '-'.join('abc') }}
        {{ '12'.isdigit() }}{{ 'a1'.isalnum() }}{{ 'ab'.isalpha() }}{{ ' '.isspace() }}{{ ''.isdigit() }}{{ 'AB1'.isupper() }}{{ 'ab1'.islower() }}{{ '1'.isupper() }}{{ 'é'.isalpha() }}{{ '日'.isalpha() }}{{ '日'.isupper() }}
        [{{ 'a'.ljust(3) }}][{{ 'a'.rjust(3, '.') }}][{{ 'ab'.center(5) }}][{{ 'a'.center(4, '*') }}][{{ '-5'.zfill(4) }}][{{ 'abc'.zfill(2) }}]
        {{ 'prefix-x'.removeprefix('prefix-') }}{{ 'x.txt'.removesuffix('.txt') }}{{ 'x'.removeprefix('y') }}
        {{ '{} {1}'.format(1, 2) }}
        {{ '{} and {}'.format('a', 2) }}{{ '{0}{1}{0}'.format('x', 'y') }}{{ '{a}{b[k]}{c.name}'.format(a=1, b={'k': 2}, c={'name': 3}) }}
        {{ '{:>5}|{:<5}|{:^5}|{:*^7}|{:05d}|{:+d}|{:,}|{:.2f}|{:x}|{:#x}|{:b}|{:e}|{:%}|{:g}'.format('a', 'b', 'c', 'd', 42, 5, 1234567, 3.14159, 255, 255, 5, 12345.678, 0.25, 0.0001) }}
        {{ '{{}} {!r} {!s:>4} {:.2}'.format('x', 'y', 'long') }}{{ '{:5}|{:<5}|{}'.format(42, 42, none) }}
        {{ '%s %d %5.2f %x %r %%' % ('a', 3, 2.5, 255, 'q') }}{{ '%s' % 'x' }}{{ '%(a)s-%(b)03d' % {'a': 1, 'b': 2} }}{{ '%5s|%-5s|%05d|%+d' % ('a', 'b', 42, 1) }}{{ '%s' % [1] }}{{ '%d' % 3.9 }}{{ '%.3s' % 'abcdef' }}
        {{ 'abc'.index('z') }}
        {{ 'a'.join([1]) }}
        {{ 'a'.split('') }}
        {{ '%d' % 'a' }}
        {{ '%s %s' % ('a',) }}
        {{ '%s' % ('a', 'b') }}
        {{ '{}'.format() }}
        {{ s.strip(1) }}
        {{ s.replace('a') }}
    """,
    "list and dict methods": """
        {{ d.keys() | list }}{{ d.values() | list }}{{ d.items() | list }}{{ d.get('a') }}{{ d.get('zz') }}{{ d.get('zz', 5) }}{{ d.get(none, 1) }}
        {{ d.items() }}{{ d.keys() }}{{ d.values() }}{{ d.keys() | length }}
        {{ l.index(2) }}{{ [1, 1, 2].count(1) }}{{ (1, 2).index(2) }}{{ [1, [1]].index([1]) }}
        {{ l.index(9) }}
        {{ d.copy() }}{{ l.copy() }}
        {{ 'a' in d.keys() }}{{ ('a', 'x') in d.items() }}{{ d.items() is iterable }}{{ d.items() is sequence }}
    """,
    "filters": r"""
        {{ s | upper }}{{ s | lower }}{{ 'hello wORLD' | capitalize }}{{ 'hello-world (foo) bar' | title }}{{ 5 | upper }}{{ none | lower }}
        [{{ spaced | trim }}][{{ 'xax' | trim('x') }}][{{ 5 | trim }}]
        {{ missing | default('d') }}{{ no | default('d') }}{{ '' | default('d', true) }}{{ missing | default }}|{{ 0 | d(5) }}{{ false | d(5, boolean=true) }}
        {{ d.nope | default('a') }}
        {{ d.nope.x | default('a') }}
        {{ s | length }}{{ l | length }}{{ d | count }}{{ missing | length }}{{ '' | length }}{{ range(4) | length }}
        {{ 5 | length }}
        {{ none | length }}
        {{ l | first }}{{ l | last }}{{ s | first }}{{ s | last }}{{ [] | first }}|{{ [] | last }}|{{ d | first }}
        {{ l | join(',') }}{{ l | join }}{{ people | join(', ', attribute='name') }}{{ [1, none, 'a', 1.5] | join('-') }}{{ 'abc' | join('.') }}{{ missing | join }}
        {{ l | sort }}{{ words | sort }}{{ words | sort(case_sensitive=true) }}{{ l | sort(reverse=true) }}{{ people | sort(attribute='age') | map(attribute='name') | list }}{{ people | sort(attribute='age,name', reverse=true) | map(attribute='name') | join(',') }}{{ l | sort(true) }}
        {{ ['a', 1] | sort }}
        {{ d | dictsort }}{{ d | dictsort(true) }}{{ {'a': 2, 'b': 1} | dictsort(by='value') }}{{ {'a': 2, 'b': 1} | dictsort(reverse=true) }}
        {{ l | reverse | list }}{{ s | reverse }}{{ u | reverse }}
        {{ [1, 2, 1, 'a', 'A'] | unique | list }}{{ people | unique(attribute='age') | map(attribute='name') | list }}
        {{ l | min }}{{ l | max }}{{ words | min }}{{ words | max(case_sensitive=true) }}{{ people | max(attribute='age') }}{{ [] | max }}|{{ l | sum }}{{ people | sum(attribute='age') }}{{ [1.5, 2] | sum(start=10) }}
        {{ people | groupby('age') | list }}
        {% for age, group in people | groupby('age') %}{{ age }}:{% for p in group %}{{ p.name }}{% endfor %};{% endfor %}
        {{ range(7) | batch(3) | list }}{{ range(7) | batch(3, 'x') | list }}{{ range(7) | slice(3) | list }}{{ range(7) | slice(3, 'x') | list }}
        {{ people | map(attribute='name') | list }}{{ people | map(attribute='city.zip', default='?') | list }}{{ words | map('upper') | list }}{{ ['a-b'] | map('replace', '-', '+') | list }}{{ nested | map(attribute=0) | list }}{{ none | map('upper') | list }}
        {{ l | select('odd') | list }}{{ l | reject('odd') | list }}{{ [0, 1, '', 'a', none] | select | list }}{{ l | select('gt', 1) | list }}{{ l | select('in', [1, 2]) | list }}{{ none | select | list }}
        {{ people | selectattr('age', 'equalto', 30) | map(attribute='name') | list }}{{ people | rejectattr('age', '==', 30) | list | length }}{{ people | selectattr('city') | list }}{{ people | selectattr('city', 'defined') | list }}{{ people | selectattr('name', 'in', ['Ann']) | list }}{{ people | rejectattr('city', 'defined') | map(attribute='name') | join }}
        {{ people | selectattr('age', 'ge', 30) | list | length }}{% if [] | select %}generators are true{% endif %}
        {{ s | list }}{{ d | list }}{{ 5 | string }}{{ [1] | string }}{{ none | string }}{{ missing | string }}|{{ d | string }}
        {{ 5 | list }}
        {{ d | items | list }}{{ missing | items | list }}
        {{ l | items | list }}
        {{ '5' | int }}{{ 'x' | int }}{{ 'x' | int(7) }}{{ '5.9' | int }}{{ 5.9 | int }}{{ -5.9 | int }}{{ '0x1F' | int(base=16) }}{{ '101' | int(base=2) }}{{ ' 12 ' | int }}{{ none | int }}{{ true | int }}{{ [] | int(3) }}{{ '1_000' | int }}
        {{ '1.5' | float }}{{ 'x' | float }}{{ 3 | float }}{{ 'x' | float(2.5) }}{{ '1e3' | float }}{{ none | float(1.0) }}
        {{ 2.5 | round }}{{ 3.5 | round }}{{ 2.567 | round(2) }}{{ 2.1 | round(method='ceil') }}{{ 2.9 | round(0, 'floor') }}{{ 7 | round }}{{ 1234.5 | round(-2) }}{{ 2.675 | round(2) }}{{ -5 | abs }}{{ -1.5 | abs }}{{ -2.5 | round }}
        {{ 'a b a' | replace('a', 'x') }}{{ 'aaa' | replace('a', 'x', 2) }}{{ 5 | replace('5', '6') }}
        {{ multi | indent }}|{{ multi | indent(2, true) }}|{{ multi | indent(2, blank=true) }}|{{ 'a\nb' | indent(width='> ') }}|{{ '' | indent(2, true) }}
        {{ 'hello world foo' | truncate(9) }}|{{ 'hello world foo' | truncate(9, true) }}|{{ 'hello world' | truncate(9) }}|{{ 'hello world foo' | truncate(9, false, '~', 0) }}|{{ 'hi' | center(6) }}|
        {{ 'a b, c' | wordcount }}{{ 'a b/ü?' | urlencode }}{{ '%s-%s' | format('a', 1) }}{{ '%(x)s' | format(x=2) }}{{ d | attr('a') }}|
        {{ html | e }}{{ html | escape }}{{ html | safe }}{{ (html | safe) + '<b>' }}{{ '<b>' + (html | safe) }}{{ (html | safe) ~ '<b>' }}{{ html | e | e }}{{ html | forceescape }}{{ (html | safe) | length }}{{ (html | safe) | upper }}{{ html | safe | string + '<' }}{{ (html | safe).strip() + '<' }}
        {{ d | tojson }}{{ 'é"\\\n\t\x01\x7f/' | tojson }}{{ numbers | tojson }}{{ [] | tojson }}{{ {} | tojson }}{{ none | tojson }}{{ (1, 2) | tojson }}{{ u | tojson }}
        {{ {'b': 1, 'a': {1: none, true: 2}} | tojson(sort_keys=true) if false else 'x' }}{{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }}{{ {1: 'a', none: 2, true: 3, 1.5: 4} | tojson }}
        {{ d | tojson(indent=2) }}|{{ [] | tojson(indent=2) }}{{ [[], {}] | tojson(indent=1) }}{{ d | tojson(indent=0) }}{{ [1, 2] | tojson(indent='--') }}
        {{ u | tojson(ensure_ascii=true) }}{{ d | tojson(separators=(',', ':')) }}{{ d | tojson(indent=2, separators=(', ', ' : ')) }}{{ '\x7f' | tojson(true) }}
        {{ missing | tojson }}
        {{ l | map('upper') | tojson }}
        {{ d.items() | tojson }}
        {{ s | nofilter }}
        {{ s | upper(1) }}
        {{ l | map('nofilter') | list }}
        {{ l | select('notest') | list }}
        {{ 1.5 | round(1) | string + 'x' }}{{ l | length | string }}{{ -1 | string }}
    """,
    "tests": """
        {{ n is defined }}{{ missing is defined }}{{ missing is undefined }}{{ n is not defined }}{{ d.a is defined }}{{ d.zz is defined }}
        {{ no is none }}{{ n is none }}{{ t is true }}{{ 1 is true }}{{ no is false }}{{ t is boolean }}{{ 1 is boolean }}
        {{ s is string }}{{ n is string }}{{ n is number }}{{ t is number }}{{ f is float }}{{ n is integer }}{{ t is integer }}{{ f is integer }}
        {{ d is mapping }}{{ l is mapping }}{{ l is sequence }}{{ s is sequence }}{{ d is sequence }}{{ n is sequence }}{{ missing is sequence }}{{ l is iterable }}{{ n is iterable }}{{ s is iterable }}{{ missing is iterable }}{{ (l | map('string')) is sequence }}{{ range(2) is sequence }}
        {{ range is callable }}{{ n is callable }}{{ s.upper is callable }}
        {{ 3 is odd }}{{ 4 is even }}{{ 9 is divisibleby 3 }}{{ 9 is divisibleby(2) }}{{ 'a' is lower }}{{ 'A' is upper }}{{ 'aB' is lower }}
        {{ 1 is eq 1 }}{{ 1 is equalto 2 }}{{ 1 is ne 2 }}{{ 1 is lt 2 }}{{ 1 is gt(2) }}{{ 1 is le 1 }}{{ 1 is ge 2 }}{{ 2 is lessthan 3 }}{{ 2 is greaterthan 1 }}{{ 1 is in [1] }}{{ 'a' is in 'abc' }}{{ 1 is not in [1] }}
        {{ 'upper' is filter }}{{ 'nope' is filter }}{{ 'odd' is test }}{{ no is sameas none }}{{ (html | safe) is escaped }}
        {{ n is defined and s is string or missing is defined }}{{ not n is defined }}{{ n is defined == true }}{{ 'x' if n is odd else 'y' }}
        {{ n is notest }}
        {% if no %}{{ n is notest }}{{ n | nofilter }}{% endif %}lazy
        {{ 5 is mapping }}{{ 'a' is eq('a') }}{{ [] is eq [] }}{{ 1 is not none }}{{ s[0] is string }}
    """,
    "syntax errors": """
        {% if t %}
        {% for x in l %}{{ x }}
        {{ n
        {% if t
        {{ 'abc }}
        {# never closed
        {% raw %} x
        {% nosuchtag %}
        {% endif %}
        {% else %}
        {{ }}
        {{ 1 + }}
        {{ (1 }}
        {{ 1 ) }}
        {{ [1 }}
        {{ a b }}
        {% set %}
        {% set 5 = 1 %}
        {% for in l %}{% endfor %}
        {% macro %}{% endmacro %}
        {% macro m(a=1, b) %}{% endmacro %}
        {{ ? }}
        {{ '\\\\x4' }}
        {% break %}
        {{ s | }}
        {{ n is }}
        {{ f(a=1, 2) }}
        {% if t %}{% endfor %}
        {% set none = 1 %}
        {% block x %}{% endblock %}x{{ 1 1 }}
    """,
}


def main():
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Generation])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    cases = []
    for group, text in GROUPS.items():
        for line in text.strip().split("\n"):
            source = line.strip()
            if group in ("text and white space", "if, for, set", "macros and calls", "syntax errors"):
                source = source.replace("\\\\", "\0").replace("\\n", "\n").replace("\\r", "\r").replace("\0", "\\")
            case = {"group": group, "template": source}
            try:
                case["expected"] = environment.from_string(source).render(**VARIABLES)
            except Exception as error:  # every kind of Python error is a result here
                case["error"] = type(error).__name__
            cases.append(case)
    json.dump({"jinja2": jinja2.__version__, "variables": VARIABLES, "cases": cases}, sys.stdout, ensure_ascii=False, indent=1)
    print()


if __name__ == "__main__":
    main()
