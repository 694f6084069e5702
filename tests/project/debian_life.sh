#!/bin/sh
# The life of the Debian package ($1) in a throwaway root: installed, used, upgraded, removed, purged.
# It runs as root in namespaces of its own (unshare --mount --net --pid): its root is this machine's, and what it writes
# is in memory. Each line "did: ..." is a step that went well.
set -eu
package="$1"

throwaway=/mnt
mount --make-rprivate /
mount -t tmpfs tmpfs "$throwaway"
mkdir "$throwaway/changes" "$throwaway/beside" "$throwaway/here"
mount -t overlay overlay -o "lowerdir=/,upperdir=$throwaway/changes,workdir=$throwaway/beside" "$throwaway/here"
mount --rbind /dev "$throwaway/here/dev"
mount -t proc proc "$throwaway/here/proc"
mount -t tmpfs tmpfs "$throwaway/here/tmp"
ip link set lo up
cp "$package" "$throwaway/here/tmp/kpybroker.deb"
chrooted="chroot $throwaway/here /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive"
inside() { $chrooted "$@"; }
# Every file of the root that has the package's name.
traces() { inside find /etc /opt /usr /var -name '*kpybroker*' | sort; }
before=$(traces)

inside dpkg --install /tmp/kpybroker.deb
inside kpybroker --version
test "$(inside stat -c '%U %a' /var/lib/kpybroker)" = "kpybroker 700"
test "$(inside stat -c '%U %G %a' /etc/kpybroker/server.properties)" = "root kpybroker 640"
echo "did: install"

inside systemd-analyze verify --man=no /lib/systemd/system/kpybroker.service
echo "did: verify"

start=$(sed -n 's/^ExecStart=//p' "$throwaway/here/lib/systemd/system/kpybroker.service")
serve() {
    $chrooted setpriv --reuid=kpybroker --regid=kpybroker --clear-groups $start > "$throwaway/said" 2>&1 &
    node=$!
    for _ in $(seq 600); do
        inside python3 -c 'from urllib.request import urlopen; urlopen("http://127.0.0.1:9404/ready")' 2> /dev/null && return
        kill -0 $node 2> /dev/null || break
        sleep 0.1
    done
    cat "$throwaway/said"
    exit 1
}
stop() {
    kill -TERM $node
    wait $node
}
serve
echo world | inside kpybroker produce hello
test "$(inside kpybroker consume hello --count 1)" = world
test "$(inside stat -c %U /var/lib/kpybroker/meta.properties)" = kpybroker
stop
echo "did: serve and stop"

echo "# mine" >> "$throwaway/here/etc/kpybroker/server.properties"
inside dpkg --install /tmp/kpybroker.deb
grep -q "# mine" "$throwaway/here/etc/kpybroker/server.properties"
serve
test "$(inside kpybroker consume hello --count 1)" = world
stop
echo "did: upgrade"

inside dpkg --remove kpybroker
test ! -e "$throwaway/here/opt/kpybroker"
test ! -L "$throwaway/here/usr/bin/kpybroker"
test -e "$throwaway/here/var/lib/kpybroker/meta.properties"
grep -q "# mine" "$throwaway/here/etc/kpybroker/server.properties"
echo "did: remove"

inside dpkg --purge kpybroker
test "$(traces)" = "$before" || { traces; exit 1; }
! inside getent passwd kpybroker
! inside getent group kpybroker
echo "did: purge"
