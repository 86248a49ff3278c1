#!/usr/bin/env bash
# Checks the links of all Markdown files of the repository, except the guide, whose links rustdoc checks: that each file exists, and that
# each anchor names a heading. Prints FILE:LINE and the link. Addresses on the web are not checked. Needs perl.
set -euo pipefail
cd "$(dirname "$0")/.."

# A link to a file elsewhere (a symbolic link) is checked where that file is.
git ls-files -z -- '*.md' | perl -0ne '
    chomp;
    push @files, $_ unless -l || m{/src/guide/} || m{^fuzz/corpus/};
    END { check(@files) }

    sub lines_of {
        my ($file) = @_;
        local $/ = "\n";
        open my $in, "<", $file or die "$file: $!";
        my ($code, @lines) = (0);
        while (<$in>) {
            chomp;
            if (/^\s*(```|~~~)/) { $code = !$code; $_ = "" }
            push @lines, $code ? "" : $_;
        }
        return @lines;
    }

    # As GitHub makes them.
    sub slug {
        my ($heading) = @_;
        $heading =~ s/\[([^\]]*)\]\([^)]*\)/$1/g;
        $heading = lc $heading;
        $heading =~ s/[^\w\- \x80-\xff]//g;
        $heading =~ s/ /-/g;
        return $heading;
    }

    sub anchors {
        my ($file) = @_;
        $anchors{$file} //= { map { /^#+ (.*?)\s*$/ ? (slug($1) => 1) : () } lines_of($file) };
        return $anchors{$file};
    }

    sub normal {
        my @parts;
        for my $part (split m{/}, $_[0]) {
            next if $part eq "" || $part eq ".";
            if ($part eq ".." && @parts) { pop @parts } else { push @parts, $part }
        }
        return join "/", @parts;
    }

    sub check {
        for my $file (@_) {
            my ($folder) = $file =~ m{^(.*/)} ? $1 : "";
            my $number = 0;
            for my $line (lines_of($file)) {
                $number++;
                while ($line =~ /\]\(([^)\s]+)\)/g) {
                    my $link = $1;
                    next if $link =~ /^[a-z]+:/ || $link =~ /::/;
                    my ($path, $anchor) = split /#/, $link, 2;
                    my $target = $path eq "" ? $file : normal("$folder$path");
                    if (!-e $target) {
                        print "$file:$number: $link: there is no $target\n";
                        $wrong++;
                    } elsif (defined $anchor && $target =~ /\.md$/ && !anchors($target)->{$anchor}) {
                        print "$file:$number: $link: $target has no such heading\n";
                        $wrong++;
                    }
                }
            }
        }
        exit($wrong ? 1 : 0);
    }
'
