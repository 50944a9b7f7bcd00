"""pyarrow, gcsfs and django-storages, unmodified, against Cloud Storage.

    filesystems.py BINARY
"""

import sys

import with_django
import with_gcsfs
import with_pyarrow
from family import Family
from place import Place
from report import Report


def main():
    report = Report()
    # Django's goes last: it sets a variable that the others would follow.
    for name, library in {"pyarrow": with_pyarrow, "gcsfs": with_gcsfs, "django-storages": with_django}.items():
        with Place(sys.argv[1]) as place:
            library.run(Family(report, name), place)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
