#!/bin/bash
# Unpacks Debian's mail servers for the flow tests, each into a folder of its own (Debian's packages exclude one another),
# to be run in a chroot of it: .peers/postfix, .peers/dovecot ... Nothing is configured or started, no maintainer script
# runs; a test brings its own configuration. A second run finds the same versions and does nothing.
#
#   scripts/debian-peers.sh [postfix|exim4|opensmtpd|dovecot|postgrey|swaks|debian]...
#
# `debian` is a bare system made by debootstrap, which is booted with the Debian package in it.
#
# Without a name: all that the tests use, which is all but swaks (a client to look at a peer with).
# Needs root (chown, mknod, chroot), apt and a mirror. Without them it says `not run here: ...`: exit 0, but 1 where CI is set.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$PWD/.peers
skipped=(--exclude=./usr/share/{doc,info,locale,man})
known='postfix exim4 opensmtpd dovecot postgrey swaks debian'
tools=(debootstrap systemd-container zsh fish mandoc openssl python3-dkim python3-nacl opendkim libfaketime dehydrated python3-certbot curl)

say() { echo "debian-peers: $*"; }
not_run_here() { echo "not run here: $*"; [ -z "${CI:-}" ] || exit 1; exit 0; }

# Essential packages are in nobody's dependencies: a shell and the basic commands are named here.
packages_of() {
  echo dash coreutils
  case $1 in
    postfix) echo postfix ;;
    exim4) echo exim4-daemon-light ;;
    opensmtpd) echo opensmtpd ;;
    dovecot) echo dovecot-core dovecot-imapd dovecot-lmtpd ;;
    postgrey) echo postgrey ;;
    debian) echo adduser init-system-helpers ca-certificates systemd ;;
    swaks) echo swaks libnet-dns-perl libnet-ssleay-perl ;;
    *) echo "debian-peers: $1 is unknown, name one of: $known" >&2; exit 64 ;;
  esac
}

# The accounts that each package's own script would make: user:number, all with a group of the same name and number.
accounts_of() {
  case $1 in
    postfix) echo postfix:901 postdrop:902 ;;
    exim4) echo Debian-exim:903 ;;
    opensmtpd) echo opensmtpd:904 opensmtpq:905 ;;
    dovecot) echo dovecot:906 dovenull:907 ;;
    postgrey) echo postgrey:908 ;;
  esac
}

# Debian 12's OpenSMTPD 6.8 fails at every STARTTLS (OpenSSL 3 took away what its key process relies on). In a folder of
# its own, with all its libraries, the one of the next release runs as well.
later_suite_of() {
  if [ "$1" = opensmtpd ] && LC_ALL=C apt-cache policy opensmtpd | grep -c 'Candidate: 6\.' >/dev/null; then echo trixie; fi
}

# Sets `release`: the options with which apt looks into another release than the machine's own, at the same mirror.
release=()
choose_release() {
  local suite mirror
  release=()
  suite=$(later_suite_of "$1")
  [ -n "$suite" ] || return 0
  mkdir -p "$folder/.$suite/lists/partial"
  release=(-o Dir::Etc::SourceList="$folder/.$suite/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o Dir::State::Lists="$folder/.$suite/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
    -o APT::Sandbox::User=root)
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Label: Debian' 'Created-By: Packages' | head -n 1)
  [ -z "$mirror" ] || echo "deb $mirror $suite main" >"$folder/.$suite/sources.list"
  [ -e "$folder/.$suite/sources.list" ] || not_run_here "no mirror of Debian is known"
}

# Prints what the folder must hold: the packages' versions and this script's own checksum.
wanted() {
  sha256sum <scripts/debian-peers.sh
  # shellcheck disable=SC2046
  LC_ALL=C apt-cache "${release[@]}" policy $(packages_of "$1") | sed -n 's/^\([a-z0-9.+-]*\):$/\1/p; s/^ *Candidate: //p'
}

# Whether apt knows a version of each of the packages.
listed() {
  local names
  read -ra names < <(packages_of "$1" | tr '\n' ' ')
  [ "$(LC_ALL=C apt-cache "${release[@]}" policy "${names[@]}" | grep -c '^  Candidate: [^(]')" = ${#names[@]} ]
}

updated=' '
update_lists() {
  local what="${release[*]:-own}"
  [[ $updated != *" $what "* ]] || return 0
  updated+="$what "
  say "fetches the package lists"
  apt-get -qq "${release[@]}" update || not_run_here "apt-get update failed"
}

# With an empty status file apt takes nothing for installed, so the whole closure comes.
download() {
  apt-get -qq "${release[@]}" -o Dir::State::status=/dev/null -o Dir::Cache::archives="$2" -o APT::Sandbox::User=root -o Debug::NoLocking=1 \
    -y --no-install-recommends --download-only install $(packages_of "$1") >/dev/null
}

lay_out() {
  local root=$1 name account number
  mkdir -p "$root"/{dev,etc,proc,root,run,tmp,usr/bin,usr/sbin,usr/lib,usr/lib64,var/tmp,var/spool/mail}
  for name in bin sbin lib lib64; do ln -s "usr/$name" "$root/$name"; done
  chmod 1777 "$root/tmp" "$root/var/tmp"
  printf 'root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/nonexistent:/bin/false\nmail:x:8:8::/var/mail:/bin/false\nvmail:x:900:900::/nonexistent:/bin/false\n' >"$root/etc/passwd"
  printf 'root:x:0:\nnogroup:x:65534:\nmail:x:8:\nvmail:x:900:\n' >"$root/etc/group"
  for account in $(accounts_of "$2"); do
    number=${account#*:} name=${account%:*}
    echo "$name:x:$number:$number::/nonexistent:/bin/false" >>"$root/etc/passwd"
    echo "$name:x:$number:" >>"$root/etc/group"
  done
  printf 'passwd: files\ngroup: files\nhosts: files\nservices: files\n' >"$root/etc/nsswitch.conf"
  printf '127.0.0.1 localhost\n' >"$root/etc/hosts"
  : >"$root/etc/resolv.conf" # Peers look nothing up; a test that needs names brings its own server.
}

# The last step fails where the file system was mounted with nodev.
make_devices() {
  mknod -m 666 "$1/dev/null" c 1 3 && mknod -m 666 "$1/dev/zero" c 1 5 && mknod -m 666 "$1/dev/random" c 1 8 &&
    mknod -m 666 "$1/dev/urandom" c 1 9 && : >"$1/dev/null"
}

finish_postfix() {
  local root=$1
  cp "$root/usr/share/postfix/main.cf.dist" "$root/etc/postfix/main.cf"
  cp "$root/usr/share/postfix/master.cf.dist" "$root/etc/postfix/master.cf"
  chown 0:902 "$root"/usr/sbin/post{drop,queue}
  chmod 2555 "$root"/usr/sbin/post{drop,queue}
}

# A system of its own, of the release and from the mirror of this machine.
bootstrap() {
  local root=$folder/debian fresh=$folder/.debian.new suite mirror
  read -r mirror suite < <(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Origin: Debian' 'Label: Debian' 'Created-By: Packages' | head -n 1) || true
  [ -n "${suite:-}" ] || not_run_here "no mirror of Debian is known"
  suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-$suite}")
  say "makes a bare Debian in .peers/debian"
  rm -rf "$fresh"
  debootstrap --variant=minbase --include="$(packages_of debian | grep -v dash | tr ' ' ',')" "$suite" "$fresh" "$mirror" >"$folder/debootstrap.log" 2>&1 ||
    not_run_here "debootstrap failed, see .peers/debootstrap.log"
  wanted debian >"$fresh/.unpacked"
  rm -rf "$root"
  mv "$fresh" "$root"
}

unpack() {
  local peer=$1 root=$folder/$1 fresh=$folder/.$1.new archives=$folder/.$1.archives package
  rm -rf "$fresh" "$archives"
  trap 'rm -rf "$folder"/.*.new "$folder"/.*.archives' EXIT
  mkdir -p "$archives/partial"
  [ -n "$(apt-cache policy opensmtpd)" ] || update_lists # Without lists apt knows only what is installed.
  choose_release "$peer"
  say "fetches $peer with all that it depends on"
  download "$peer" "$archives" 2>/dev/null || { update_lists; download "$peer" "$archives"; } || not_run_here "the packages of $peer cannot be fetched"
  say "unpacks $peer into .peers/$peer"
  lay_out "$fresh" "$peer"
  make_devices "$fresh" || not_run_here "device files cannot be made or used in .peers"
  for package in "$archives"/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x -p --keep-directory-symlink "${skipped[@]}" -C "$fresh"
  done
  ldconfig -r "$fresh"
  chroot "$fresh" /usr/bin/true || not_run_here "chroot is not permitted"
  if declare -F "finish_$peer" >/dev/null; then "finish_$peer" "$fresh"; fi
  wanted "$peer" >"$fresh/.unpacked"
  rm -rf "$root" "$archives"
  mv "$fresh" "$root"
}

install_tools() {
  local missing=() tool
  for tool in "${tools[@]}"; do
    dpkg-query -W -f '${db:Status-Status}' "$tool" 2>/dev/null | grep -qx installed || missing+=("$tool")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  update_lists
  say "installs ${missing[*]}"
  DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "${missing[@]}" >/dev/null ||
    not_run_here "${missing[*]} cannot be installed"
}

[ $# -gt 0 ] || set -- postfix exim4 dovecot postgrey opensmtpd debian
for peer; do packages_of "$peer" >/dev/null; done
command -v apt-get >/dev/null || not_run_here "this system has no apt"
[ "$(id -u)" = 0 ] || not_run_here "only root can unpack and run mail servers in a chroot"
mkdir -p "$folder"
exec 9>"$folder/.lock"
flock 9 # Two runs at once would unpack over each other.

install_tools
for peer; do
  unpacked=$folder/$peer/.unpacked
  choose_release "$peer"
  if [ -e "$unpacked" ] && ! listed "$peer"; then
    say "$peer is there (without package lists its versions cannot be compared)"
  elif [ -e "$unpacked" ] && [ "$(wanted "$peer")" = "$(cat "$unpacked")" ]; then
    say "$peer is there"
  elif [ "$peer" = debian ]; then
    bootstrap
  else
    unpack "$peer"
  fi
done
