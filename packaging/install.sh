#!/bin/sh
# Installs the program `sarsen`, version @VERSION@, for this user.
#
#   curl -fsSL @INSTALL@ | sh
#
# It downloads one archive, checks it, and copies one file to ~/.local/bin. It starts nothing, needs no root, and changes no
# other file: what to do about the search path is printed. `--help` has the options.
#
# Everything is in functions that the last line calls, so that a download that was cut off runs nothing.

set -eu

VERSION='@VERSION@'
RELEASE='@RELEASE@'
# Of the key that signs SHA256SUMS. Empty: there is none yet.
PUBLIC_KEY='@PUBLIC_KEY@'

help() {
    cat <<HELP
Installs sarsen $VERSION to ~/.local/bin, for this user.

  --dir DIR             install to this folder
  --from URL|DIR        take the archive and its sums from a mirror (https) or from a folder
  --require-signature   stop if the signature cannot be verified on this machine
  --uninstall           remove the program; data and settings stay
  --help                print this

With a pipe:  curl -fsSL @INSTALL@ | sh -s -- --dir DIR
HELP
}

say() { printf '%s\n' "$*"; }

fail() {
    printf 'install.sh: %s\n' "$*" >&2
    exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

main() {
    from=$RELEASE
    folder=
    action=install
    signature=optional
    while [ $# -gt 0 ]; do
        case $1 in
            --dir | --from)
                [ $# -ge 2 ] && [ -n "$2" ] || fail "$1 needs a value; see --help"
                if [ "$1" = --dir ]; then folder=$2; else from=${2%/}; fi
                shift
                ;;
            --require-signature) signature=required ;;
            --uninstall) action=uninstall ;;
            --help | -h)
                help
                return 0
                ;;
            *) fail "there is no option $1; see --help" ;;
        esac
        shift
    done
    if [ -z "$folder" ]; then
        [ -n "${HOME:-}" ] || fail "HOME is not set; name a folder with --dir DIR"
        folder=$HOME/.local/bin
    fi
    case $folder in
        /*) ;;
        *) folder=$(pwd)/$folder ;;
    esac
    "$action"
}

install() {
    target=$(target) || exit 1
    is_ours_or_free
    work=$(mktemp -d) || fail "cannot make a folder for temporary files"
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' HUP TERM

    name=sarsen-$VERSION-$target
    say "sarsen $VERSION for $target, from $from"
    get SHA256SUMS
    verify_signature
    get "$name.tar.gz"
    verify_sum "$name.tar.gz"
    tar -xzf "$work/$name.tar.gz" -C "$work" "$name/sarsen" || fail "$name.tar.gz cannot be unpacked"

    mkdir -p "$folder" || fail "cannot make the folder $folder; name another one with --dir DIR"
    # Run before it is in its place: a program that does not start here must not replace one that does. And renamed into it,
    # because a program that runs cannot be written to.
    new=$folder/.sarsen.new.$$
    trap 'rm -rf "$work" "$new"' EXIT
    { cp "$work/$name/sarsen" "$new" && chmod 755 "$new"; } ||
        fail "cannot write to $folder; name another folder with --dir DIR"
    found=$("$new" --version 2>&1) || fail "the program does not run on this machine: $found"
    mv -f "$new" "$folder/sarsen" || fail "cannot write to $folder; name another folder with --dir DIR"
    say "installed:  $folder/sarsen  ($found)"
    say "no other file was changed; remove it with: rm $(quoted "$folder/sarsen")"
    next_steps
}

uninstall() {
    if [ ! -e "$folder/sarsen" ] && [ ! -L "$folder/sarsen" ]; then
        say "there is no $folder/sarsen; nothing was removed"
        return 0
    fi
    is_ours_or_free
    rm -f "$folder/sarsen" || fail "cannot remove $folder/sarsen"
    say "removed:  $folder/sarsen"
    say "data and settings stay where they are (the folders of sarsen.toml and of sarsen demo --data)"
}

# Whether $folder/sarsen is a file of this script or of nobody. Other installers put links there.
is_ours_or_free() {
    if [ -L "$folder/sarsen" ]; then
        fail "$folder/sarsen is a link, which this script did not make; remove it with what made it, or use --dir DIR"
    fi
    [ -e "$folder/sarsen" ] || return 0
    found=
    [ ! -f "$folder/sarsen" ] || found=$("$folder/sarsen" --version 2>/dev/null) || found=
    case $found in
        'sarsen '*) ;;
        *) fail "$folder/sarsen is another program; remove it yourself, or use --dir DIR" ;;
    esac
}

# Prints the name of this platform in the archives.
target() {
    system=$(uname -s)
    [ "$system" = Linux ] || fail "there is no program for $system; Sarsen runs on Linux"
    case $(uname -m) in
        x86_64 | amd64) machine=x86_64 needed=17 ;;
        aarch64 | arm64) machine=aarch64 needed=28 ;;
        *) fail "there is no program for $(uname -m); Sarsen runs on x86_64 and aarch64" ;;
    esac
    # `GNU libc`, `GLIBC 2.36` or `glibc 2.36`; ldd of musl answers 1, with its name.
    libc=$(getconf GNU_LIBC_VERSION 2>/dev/null || ldd --version 2>&1 || true)
    case $libc in
        *musl*) fail "this system has musl as its C library; the program needs glibc 2.$needed or newer" ;;
    esac
    libc=$(printf '%s\n' "$libc" | sed -n '1s/.*[^0-9.]2\.\([0-9][0-9]*\).*/\1/p')
    if [ -n "$libc" ] && [ "$libc" -lt "$needed" ]; then
        fail "this system has glibc 2.$libc; the program needs glibc 2.$needed or newer"
    fi
    printf '%s\n' "$machine-unknown-linux-gnu"
}

# Fetches a file of the release into $work.
get() {
    case $from in
        https://*) options='--proto =https --tlsv1.2' ;;
        # Nobody is between a server on this machine and this script.
        http://127.0.0.1[:/]* | http://localhost[:/]*) options= ;;
        /* | ./* | ../*)
            cp "$from/$1" "$work/$1" || fail "there is no $1 in $from"
            return 0
            ;;
        *) fail "--from takes https://…, or a folder that begins with / or ./, not $from" ;;
    esac
    if has curl; then
        # shellcheck disable=SC2086
        curl -fsSL $options --retry 2 -o "$work/$1" "$from/$1" || fail "cannot download $from/$1"
    elif has wget; then
        wget -q -O "$work/$1" "$from/$1" || fail "cannot download $from/$1"
    else
        fail "this needs curl or wget; install one of them"
    fi
}

# Three outcomes: verified; wrong, which ends here; or not verified, with the reason.
verify_signature() {
    if [ -z "$PUBLIC_KEY" ]; then
        unverified "this script has no public key"
    elif ! has openssl || ! openssl pkeyutl -help 2>&1 | grep -q -e -rawin; then
        unverified "that takes openssl 3, which is not here"
    else
        get SHA256SUMS.sig
        printf -- '-----BEGIN PUBLIC KEY-----\n%s\n-----END PUBLIC KEY-----\n' "$PUBLIC_KEY" >"$work/key.pem"
        openssl pkeyutl -verify -pubin -inkey "$work/key.pem" -rawin -in "$work/SHA256SUMS" \
            -sigfile "$work/SHA256SUMS.sig" >/dev/null 2>&1 ||
            fail "the signature of $from/SHA256SUMS is wrong: nothing was installed; the files may have been exchanged"
        say "verified:   the signature of SHA256SUMS (Ed25519)"
    fi
}

unverified() {
    [ "$signature" = optional ] || fail "the signature cannot be verified: $1"
    say "NOT verified: the signature of SHA256SUMS ($1). What follows shows that the"
    say "            archive is complete, and rests on the server that the sums come from."
}

verify_sum() {
    wanted=
    while read -r sum file; do
        case $file in "$1" | "*$1") wanted=$sum ;; esac
    done <"$work/SHA256SUMS"
    [ -n "$wanted" ] || fail "SHA256SUMS does not name $1: nothing was installed"
    if has sha256sum; then
        found=$(sha256sum <"$work/$1")
    elif has openssl; then
        found=$(openssl dgst -sha256 -r <"$work/$1")
    else
        fail "this needs sha256sum or openssl to check the download; install one of them"
    fi
    [ "${found%% *}" = "$wanted" ] ||
        fail "$1 is damaged (SHA-256 ${found%% *}, wanted $wanted): nothing was installed; try again"
    say "verified:   the SHA-256 of $1"
}

next_steps() {
    say ""
    case ":${PATH:-}:" in
        *":$folder:"*) say "Try it:     sarsen demo" ;;
        *)
            say "Try it:     $(quoted "$folder/sarsen") demo"
            say ""
            say "$folder is not on your search path. To have \`sarsen\` there, type this line, and add it to the"
            say "profile of your shell if it shall last (this script does not touch it):"
            say "            export PATH=$(quoted "$folder"):\"\$PATH\""
            ;;
    esac
}

# A word for the shell, in quotes where it needs them.
quoted() {
    case $1 in
        *[!A-Za-z0-9_./@%+=:,-]*) printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")" ;;
        *) printf '%s' "$1" ;;
    esac
}

# In braces: a shell that gets half of this line runs none of it.
{ main "$@"; }
