#!/usr/bin/env bash
# Checks the words of public text: ci/prose.sh [--count] [PATH ...]. Prints FILE:LINE, what is wrong and what to write instead;
# --count prints one line per file. A few seconds; needs perl, which every Debian has.
#
# words       ci/prose.txt lists words and phrases, and what to write instead. Checked in Markdown and in rustdoc.
# sentences   At most 35 words in Markdown and rustdoc. None begins with "Who", "Whoever" or "What is ...".
# mean        The sentences of a Markdown file have at most 16 words on average. Items of lists without a full stop do not count.
# summaries   The first sentence of a public item's documentation has at most 15 words.
# decisions   A decision in docs/decisions has at most 150 words.
# README      Rust examples have no hidden lines ("# ..."), because GitHub displays these.
#
# Code, links' addresses and tables are not sentences. Recorded runs are not checked.
set -euo pipefail
cd "$(dirname "$0")/.."

count=0
if [ "${1-}" = --count ]; then
    count=1
    shift
fi
if [ $# -eq 0 ]; then
    set -- .
fi

git ls-files -z -- "$@" | COUNT=$count perl -0ne '
    chomp;
    push @files, $_ if /\.(md|rs)$/ && !m{^(bench/recorded|fuzz/corpus)/} && !m{/tests/} && !m{(^|/)(tests|model|schedules)\.rs$};
    END { check(@files) }

    sub report {
        my ($file, $line, $text) = @_;
        $found{$file}++;
        $found++;
        print "$file:$line: $text\n" unless $ENV{COUNT};
    }

    # The text of one paragraph, without code and addresses.
    sub plain {
        my ($text) = @_;
        $text =~ s/`[^`]*`/x/g;
        $text =~ s/!?\[([^\]]*)\]\([^)]*\)/$1/g;
        $text =~ s/\[([^\]]*)\](\[[^\]]*\])?/$1/g;
        $text =~ s/<[^>]*>//g;
        $text =~ s/[*_]{1,2}//g;
        return $text;
    }

    sub sentences { return split /(?<=[.!?:])\)?\s+(?=[A-Z"(x])/, $_[0] }
    sub words { my @words = grep { /[A-Za-z0-9]/ } split /\s+/, $_[0]; return scalar @words }

    sub paragraph {
        my ($file, $line, $text, $is_summary) = @_;
        $text = plain($text);
        for my $banned (@banned) {
            my ($pattern, $advice) = @$banned;
            report($file, $line, "\"$1\": write $advice") while $text =~ /\b($pattern)\b/gi;
        }
        my @sentences = sentences($text);
        if ($is_summary && @sentences) {
            my $words = words($sentences[0]);
            report($file, $line, "a summary of $words words: at most 15") if $words > 15;
        }
        for my $sentence (@sentences) {
            my $words = words($sentence) or next;
            push @all, [$words, $sentence] if $sentence =~ /[.!?:]\)?\s*$/;
            my $start = join " ", (split /\s+/, $sentence)[0 .. 4];
            report($file, $line, "a sentence of $words words, \"$start ...\": at most 35") if $words > 35;
            report($file, $line, "\"$start ...\": begin with the thing that acts")
                if $sentence =~ /^\(?(Who|Whoever|Those who|What is)\b(?!.*\?)/;
        }
    }

    # Each decision of a page: the text of one heading.
    sub decisions {
        my ($file, $number, $heading, $words) = (shift, 0, 0, 0);
        for my $line (@_, "# end") {
            $number++;
            if ($line =~ /^#/) {
                report($file, $heading, "a decision of $words words: at most 150; shorten it, or split it by claim") if $words > 150;
                ($heading, $words) = ($number, 0);
            }
            elsif ($line !~ /^\s*\|/) { $words += words(plain($line)) }
        }
    }

    # The longest sentences of a file whose mean is over 16 words.
    sub mean {
        my ($file) = @_;
        my $words = 0;
        $words += $_->[0] for @all;
        return if $words <= 16 * @all;
        my @longest = sort { $b->[0] <=> $a->[0] } @all;
        splice @longest, 5 if @longest > 5;
        my $text = sprintf "sentences of %.1f words on average: at most 16; split the longest:", $words / @all;
        report($file, 1, join "\n    ", $text, map { "$_->[0] words: $_->[1]" } @longest);
    }

    sub markdown {
        my ($file, $number, $lines, $is_readme) = @_;
        my ($code, $rust, $text, $start) = (0, 0, "", 0);
        my $end = sub { paragraph($file, $start, $text, 0) if $text =~ /\S/; $text = "" };
        for my $line (@$lines, "") {
            $number++;
            if ($line =~ /^\s*(```|~~~)(.*)/) {
                $end->();
                $code = !$code;
                $rust = $code && $2 =~ /^rust|^$/;
                next;
            }
            if ($code) {
                report($file, $number, "a hidden line: GitHub displays it") if $is_readme && $rust && $line =~ /^# /;
                next;
            }
            if ($line =~ /^\s*\|/ || $line =~ /^ {4,}\S/ && $text eq "") { $end->(); words_only($file, $number, $line); next }
            if ($line =~ /^\s*$|^\s*#|^\s*\[[^\]]+\]:/) { $end->(); next }
            $end->() if $line =~ s/^\s*([-*+]|\d+\.)\s+//;
            $line =~ s/^\s*>\s?//;
            $start = $number if $text eq "";
            $text .= " " . $line;
            $text =~ s/^\s+//;
        }
    }

    sub words_only {
        my ($file, $line, $text) = @_;
        $text = plain($text);
        for my $banned (@banned) {
            my ($pattern, $advice) = @$banned;
            report($file, $line, "\"$1\": write $advice") while $text =~ /\b($pattern)\b/gi;
        }
    }

    sub rust {
        my ($file, @lines) = @_;
        my (@doc, $begin);
        for my $number (1 .. @lines) {
            my $line = $lines[$number - 1];
            if ($line =~ m{^\s*//[/!] ?(.*)$} && $line !~ m{^\s*////}) {
                $begin = $number unless @doc;
                push @doc, $1;
                next;
            }
            if (@doc) {
                next if $line =~ /^\s*#!?\[/ && $line !~ /^\s*#!\[/;
                markdown($file, $begin - 1, \@doc, 0);
                if ($line =~ /^\s*pub (?!\()/ || $line =~ /^\s*(?:macro_rules!)/) {
                    my @first;
                    for (@doc) { last if /^\s*$/; push @first, $_ }
                    my ($first) = sentences(plain(join " ", @first));
                    my $words = words($first // "");
                    report($file, $begin, "a summary of $words words: at most 15") if $words > 15;
                }
                @doc = ();
            }
        }
    }

    sub check {
        local $/ = "\n";
        open my $table, "<", "ci/prose.txt" or die "ci/prose.txt: $!";
        while (<$table>) {
            chomp;
            next if /^#|^\s*$/;
            my ($pattern, $advice) = split /\t/;
            push @banned, [$pattern, $advice];
        }
        for my $file (@_) {
            open my $in, "<", $file or die "$file: $!";
            chomp(my @lines = <$in>);
            @all = ();
            if ($file =~ /\.md$/) {
                markdown($file, 0, \@lines, $file =~ m{(^|/)README\.md$});
                mean($file);
                decisions($file, @lines) if $file =~ m{^docs/decisions/(?!README)};
            }
            else { rust($file, @lines) }
        }
        if ($ENV{COUNT}) { printf "%5d %s\n", $found{$_}, $_ for sort { $found{$b} <=> $found{$a} } keys %found }
        printf "%d found in %d of %d files\n", $found, scalar(keys %found), scalar(@_) if $found;
        exit($found ? 1 : 0);
    }
'
