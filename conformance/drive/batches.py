"""Drive: several calls in one request."""

from googleapiclient import errors

from library import raw, same


def cases(report, drive, server):
    def run(requests):
        """Runs requests as a batch; gives the reply or the error to each, by its id, in the order of the replies."""
        replies = {}

        def take(request_id, response, exception):
            replies[request_id] = exception or response

        batch = drive.service.new_batch_http_request(callback=take)
        for request_id, request in requests.items():
            batch.add(request, request_id=request_id)
        batch.execute()
        return replies

    def mixed():
        file = drive.create(name="Müsli").execute()
        replies = run({
            "made": drive.create(name="alpaca"),
            "a strange + id/%": drive.files.get(fileId=file["id"], fields="name"),
            "renamed": drive.files.update(fileId=file["id"], body={"name": "Grütze"}, fields="name"),
            "missing": drive.files.get(fileId="none"),
            "listed": drive.files.list(q="name = 'Grütze'", fields="files(id)"),
            "deleted": drive.files.delete(fileId=file["id"]),
        })
        same(list(replies), ["made", "a strange + id/%", "renamed", "missing", "listed", "deleted"])
        same(replies["made"]["name"], "alpaca")
        same(replies["a strange + id/%"], {"name": "Müsli"})
        same(replies["renamed"], {"name": "Grütze"})
        same(replies["listed"], {"files": [{"id": file["id"]}]})
        assert isinstance(replies["missing"], errors.HttpError), replies["missing"]
        same(replies["missing"].resp.status, 404)
        same(replies["deleted"], "")

    def hundred():
        replies = run({str(n): drive.create(name=f"cow {n}") for n in range(100)})
        same([reply["name"] for reply in replies.values()], [f"cow {n}" for n in range(100)])

    def too_many():
        body = "--b\r\nContent-Type: application/http\r\n\r\nGET /drive/v3/files\r\n" * 101 + "--b--"
        status, reply = raw(server.url + "/batch/drive/v3", "POST", body.encode(),
                            Content_Type="multipart/mixed; boundary=b")
        same(status, 400)
        assert b"100 calls" in reply, reply

    report.case("batch of calls of all kinds", mixed)
    report.case("batch of a hundred calls", hundred)
    report.case("batch of more than a hundred calls", too_many)
