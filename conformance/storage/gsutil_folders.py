"""gsutil with folders, parts of objects, and more than it sends in one piece elsewhere."""

from report import media

MB = 1_000_000
# From 150 MiB on it advises to upload in parts, which it does only if it is told to.
LARGE = 160 * MB


def run(report, gsutil):
    folder = gsutil.folder

    def write(path, data):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def read(url):
        back = folder / "read"
        gsutil.run("cp", url, back)
        data = back.read_bytes()
        back.unlink()
        return data

    def large():
        data = media(LARGE, seed=8)
        write(folder / "large", data)
        gsutil.run("cp", folder / "large", "gs://barn/large")
        (folder / "large").unlink()
        assert read("gs://barn/large") == data, "other bytes came back"
        gsutil.run("rm", "gs://barn/large")

    def parts():
        gsutil.run("cp", "-", "gs://barn/digits", stdin=b"0123456789" * 1000)
        for given, expected in {"10-19": "0123456789", "9998-": "89", "-3": "789"}.items():
            assert gsutil.run("cat", "-r", given, "gs://barn/digits") == expected, given

    def moved_up():
        write(folder / "calf", b"moo")
        gsutil.run("mv", folder / "calf", "gs://barn/calf")
        assert not (folder / "calf").exists() and gsutil.run("cat", "gs://barn/calf") == "moo"

    def one_by_one():
        for n in range(3):
            write(folder / "flock" / f"{n % 2}" / f"{n}.bin", media(2000 + n, seed=n))
        gsutil.run("cp", "-r", folder / "flock", "gs://barn")
        gsutil.run("mv", "gs://barn/flock", "gs://barn/moved")
        gsutil.run("ls", "gs://barn/flock", code=1)
        found = gsutil.run("ls", "gs://barn/moved/**").split()
        assert found == [f"gs://barn/moved/{name}.bin" for name in ("0/0", "0/2", "1/1")], found
        assert read("gs://barn/moved/1/1.bin") == media(2001, seed=1)
        gsutil.run("rm", "-r", "gs://barn/moved/0")
        assert gsutil.run("ls", "gs://barn/moved/**").split() == ["gs://barn/moved/1/1.bin"]

    def kept_alike():
        sheep = folder / "sheep"
        for n in range(3):
            write(sheep / f"{n}.bin", media(3000 + n, seed=n))
        gsutil.run("rsync", "-r", sheep, "gs://barn/sheep")
        (sheep / "0.bin").unlink()
        write(sheep / "1.bin", media(3001, seed=9))
        gsutil.run("rsync", "-r", "-c", "-d", sheep, "gs://barn/sheep")
        assert gsutil.run("ls", "gs://barn/sheep/").split() == ["gs://barn/sheep/1.bin", "gs://barn/sheep/2.bin"]
        assert read("gs://barn/sheep/1.bin") == media(3001, seed=9)

    report.case("gsutil cp, 160 MB there and back", large)
    report.case("gsutil cat, parts", parts)
    report.case("gsutil mv from a file", moved_up)
    report.case("gsutil cp -r, mv and rm -r of folders, one by one", one_by_one)
    report.case("gsutil rsync, what has changed and what is gone", kept_alike)
