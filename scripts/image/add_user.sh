#!/bin/sh
# add_user.sh ROOT NAME ID HOME: the accounts of an image: root, nobody and one user. There is no shadow file.
set -eu
root=$1 name=$2 id=$3 home=$4
cat >"$root/etc/passwd" <<END
root:x:0:0:root:/:/usr/sbin/nologin
$name:x:$id:$id::$home:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
END
cat >"$root/etc/group" <<END
root:x:0:
$name:x:$id:
nogroup:x:65534:
END
cat >"$root/etc/nsswitch.conf" <<END
passwd: files
group: files
hosts: files dns
END
