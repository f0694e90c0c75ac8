"""Unpacks the parts of a wheel that the engine uses.

Usage: unpack-wheel.py WHEEL DIRECTORY. Libraries go to lib/ (NVIDIA's stay in nvidia/, with links in lib/, where the
run path of TensorFlow's own library finds them), headers to include/.
"""

import os
import shutil
import sys
import zipfile

HEADERS = ('tensorflow/c/', 'tensorflow/core/platform/', 'tsl/platform/', 'xla/tsl/c/')
NAMES = {'libtensorflow_cc.so.2': 'libtensorflow', 'libtensorflow_framework.so.2': 'libtensorflow_framework'}


def place_of(name):
    """The place of an entry in DIRECTORY, or None if it is not used."""
    if name.endswith('/'):
        return None
    if name.startswith('tensorflow/libtensorflow') and os.path.basename(name) in NAMES:
        return 'lib/' + os.path.basename(name)
    if name.startswith(tuple('tensorflow/include/' + header for header in HEADERS)):
        return name[len('tensorflow/'):]
    if name.startswith('nvidia/') and '/lib/' in name and '.so' in name:
        return name
    return None


def link(target, path):
    if not os.path.lexists(path):
        os.symlink(target, path)


def main(wheel, out):
    os.makedirs(os.path.join(out, 'lib'), exist_ok=True)
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            place = place_of(entry.filename)
            if place is None:
                continue
            path = os.path.join(out, place)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with archive.open(entry) as source, open(path, 'wb') as sink:
                shutil.copyfileobj(source, sink, 1 << 20)
            base = os.path.basename(place)
            if place.startswith('nvidia/'):
                link('../' + place, os.path.join(out, 'lib', base))
            if base in NAMES:
                link(base, os.path.join(out, 'lib', NAMES[base] + '.so'))
                link(base, os.path.join(out, 'lib', NAMES[base] + '.so.2'))


main(*sys.argv[1:])
