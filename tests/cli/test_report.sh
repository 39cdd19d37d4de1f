#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Reports of made-up results: tables, pages and figures, what is joined, and what is refused.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

here=$(dirname "$0")
results=$work/results
mkdir "$results"
python3 -B "$here/make_results.py" "$results" || exit 1

run 0 report --help
[[ $out == *"report.html"* ]] || fail "incomplete help"
refused 2 'no FILE given' report
refused 1 'cannot report /nonexistent/x \(No such file' report /nonexistent/x
refused 1 'it holds no results' report "$here/lib.sh"

# Every benchmark has its tables, in each form; what is missing is no zero.
for benchmark in fidelity ruler longbench perplexity attention-error ratio speed; do
    run 0 report "$results/$benchmark.jsonl"
    [ "$(grep -c '' <<<"$out")" -gt 10 ] || fail "no tables of $benchmark"
    ! grep -Eq 'nan|inf\b' <<<"$out" || fail "a number that is none in $benchmark"
    run 0 report "$results/$benchmark.jsonl" --markdown
    grep -q '^### ' <<<"$out" || fail "no Markdown of $benchmark"
    run 0 report "$results/$benchmark.jsonl" --csv
    python3 -c 'import csv, io, sys
rows = list(csv.reader(io.StringIO(sys.stdin.read())))
widths = [len(row) for row in rows if row]
sys.exit(len(widths) < 3)' <<<"$out" || fail "no CSV of $benchmark"
done

run 0 report "$results/fidelity.jsonl"
grep -Eq '^At 20 % of the cache, min-h --select topk is closest to the full cache: ' <<<"$out" ||
    fail "no sentence of the result"
grep -Eq '^ *20 %  min-h --select topk  .*\* ' <<<"$out" || fail "the best is not marked"

# Two shards in one file, and in two, are the same run. The same cell twice counts once.
head -n 25 "$results/fidelity.jsonl" >"$work/first"
{ head -n 1 "$results/fidelity.jsonl"; tail -n +20 "$results/fidelity.jsonl"; } >"$work/second"
cat "$work/first" "$work/second" >"$work/joined"
run 0 report "$results/fidelity.jsonl"
whole=$out
run 0 report "$work/joined"
[ "$out" = "$whole" ] || fail "shards in one file are not the whole"
run 0 report "$work/first" "$work/second"
[ "$out" = "$whole" ] || fail "shards in two files are not the whole"

# Other models are sections of their own.
sed '1s/0123456789abcdef/fedcba9876543210/' "$results/ratio.jsonl" >"$work/other.jsonl"
run 0 report "$results/ratio.jsonl" "$work/other.jsonl"
[ "$(grep -c '^What is kept of what was asked for$' <<<"$out")" -eq 2 ] || fail "two models are one run"

# Damage is told by file and line.
sed '3s/values/valeus/' "$results/ratio.jsonl" >"$work/damaged"
refused 1 'cannot report .*/damaged \(line 3 is damaged; ' report "$work/damaged"
sed '1s/"version": 1/"version": 9/' "$results/ratio.jsonl" >"$work/newer"
refused 1 'cannot report .*/newer \(line 1: results of version 9' report "$work/newer"
sed '2s/"kept"/"kpet"/' "$results/ratio.jsonl" >"$work/lacking"
refused 1 "the cell '.*' cannot be reported \(it has no kept that makes sense" report "$work/lacking"
{ cat "$results/ratio.jsonl"; sed -n '2s/"kept": 0\./"kept": 0.0/p' "$results/ratio.jsonl"; } >"$work/twice"
refused 1 "the cell '.*' was measured before with other values" report "$work/twice"

# The folder: a page that needs nothing else, tables and numbers; names from files stay within it.
mkdir "$work/bin"
printf '#!/bin/sh\nexit 1\n' >"$work/bin/gnuplot"
chmod +x "$work/bin/gnuplot"
PATH=$work/bin:$PATH run 0 report "$results"/*.jsonl -o "$work/bare"
says 'cannot draw the plot .*; the tables and numbers are written'
[ -z "$out" ] || fail "output besides the folder"
python3 -B "$here/check_page.py" "$work/bare/report.html" >"$work/page" 2>&1 ||
    fail "the page without figures: $(cat "$work/page")"
grep -q '^0 figures 1[0-9] tables' "$work/page" || fail "not all tables: $(cat "$work/page")"
grep -q '&lt;b&gt;tiny&lt;/b&gt; &amp; &quot;quick&quot; 1M' "$work/bare/report.html" ||
    fail "the model's name is not there, or not escaped"
grep -q '<strong>' "$work/bare/report.html" || fail "the best is not emphasised"
grep -q 'pooled mean attention of the last queries' "$work/bare/report.html" ||
    fail "methods are not explained"
for file in fidelity-methods.md fidelity-methods.csv fidelity-kl.tsv ruler-agnostic-1024.csv \
    ruler-aware-1024-task-i-qa-i-1.tsv perplexity-position.tsv speed-memory-2-f16.tsv; do
    [ -s "$work/bare/$file" ] || fail "no $file"
done
[ -z "$(find "$work/bare" -name '*.svg' -o -name '*.part')" ] || fail "pictures or parts are left"
refused 1 'cannot make the folder /nonexistent/a/b' report "$results/ratio.jsonl" -o /nonexistent/a/b

# A gnuplot that draws two pictures and then fails: the page is written without the others, and one note says so.
cat >"$work/bin/gnuplot" <<END
#!/bin/sh
echo x >>"$work/drawn"
[ "\$(wc -l <"$work/drawn")" -le 3 ] || { echo "line 7: no such palette" >&2; exit 1; }
echo "warning: an empty range" >&2
echo '<svg></svg>'
END
PATH=$work/bin:$PATH run 0 report "$results"/*.jsonl -o "$work/partly"
says "the figure '.*' is left out: cannot draw the plot \\(gnuplot failed: line 7: no such palette\\)"
[ "$(grep -c '' <<<"$err")" -eq 1 ] || fail "more than one note: $err"
[ -s "$work/partly/report.html" ] || fail "no page where a picture failed"
[ -s "$work/partly/speed-memory-2-f16.tsv" ] || fail "no numbers where a picture failed"

if command -v gnuplot >/dev/null; then
    run 0 report "$results/fidelity.jsonl" "$results/ruler.jsonl" "$results/speed.jsonl" -o "$work/full"
    [ -z "$err" ] || fail "notes although gnuplot is there"
    python3 -B "$here/check_page.py" "$work/full/report.html" >"$work/page" 2>&1 ||
        fail "the page: $(cat "$work/page")"
    grep -q '^1[0-9] figures' "$work/page" || fail "not all figures: $(cat "$work/page")"
    for file in fidelity-kl fidelity-heads-1 ruler-agnostic-1024-win-bars speed-decoding-2-f16; do
        [ -s "$work/full/$file.svg" ] || fail "no picture $file.svg"
        [ -s "$work/full/$file.png" ] || fail "no picture $file.png"
    done
    # Again into the same folder.
    run 0 report "$results/ratio.jsonl" -o "$work/full"
fi

# Names that command a terminal or turn text round do neither in any file, nor in pictures' words.
sed 's/"\(<b>tiny\|snapkv\|narrative\)/"\\u009b2J\\u202e\\u2067\1/g' "$results/fidelity.jsonl" >"$work/turned.jsonl"
run 0 report "$work/turned.jsonl" -o "$work/turned"
for file in report.html fidelity-kl.tsv; do
    grep -q ' 2J  snapkv' "$work/turned/$file" || fail "no name in $file"
done
if LC_ALL=C grep -rlP --exclude='*.png' '\xc2[\x80-\x9f]|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]' \
    "$work/turned" >"$work/keep"; then
    fail "names that command are in $(cat "$work/keep")"
fi
finish
