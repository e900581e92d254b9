import json, time, urllib.error, urllib.parse, urllib.request, uuid

class MailctlError(Exception):
    def __init__(self, status, code, message, request_id=None, violations=()):
        super().__init__(f"{status} {code}: {message}")
        self.status, self.code, self.request_id, self.violations = status, code, request_id, list(violations)

class Mailctl:
    def __init__(self, base_url, api_key, retries=2, timeout=30):
        self.base_url, self.api_key, self.retries, self.timeout = base_url.rstrip("/"), api_key, retries, timeout

    def send(self, idempotency_key=None, **message):
        """send(**{"from": ...}, to=..., templateId=..., data={...}) returns the answer with the id."""
        key = idempotency_key or str(uuid.uuid4())
        return self.call("POST", "/v1/messages", message, {"Idempotency-Key": key})

    def batch(self, messages):
        """Up to 100 sends; a result for each. Each has an idempotencyKey, so no retry makes a second message."""
        keyed = [{"idempotencyKey": str(uuid.uuid4()), **message} for message in messages]
        return self.call("POST", "/v1/messages/batch", {"messages": keyed}, repeatable=True)["data"]

    def cancel(self, id):
        """Ends a message whose first attempt has not begun."""
        return self.call("POST", f"/v1/messages/{id}/cancel")

    def reschedule(self, id, send_at):
        """Gives such a message another time: reschedule("msg_…", "+2h")."""
        return self.call("PATCH", f"/v1/messages/{id}", {"sendAt": send_at})

    def list(self, path, **filters):
        """Each item of a list, such as list("/v1/messages", recipient="ada@example.org")."""
        cursor = None
        while True:
            query = {**filters, **({"cursor": cursor} if cursor else {})}
            page = self.call("GET", f"{path}?{urllib.parse.urlencode(query)}")
            yield from page["data"]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def call(self, method, path, body=None, headers=(), repeatable=False):
        """Any route. What is not JSON comes as bytes."""
        data = None if body is None else json.dumps(body).encode()
        media = {} if body is None else {"Content-Type": "application/json"}
        headers = {"Authorization": f"Bearer {self.api_key}", **media, **dict(headers)}
        safe = repeatable or method != "POST" or "Idempotency-Key" in headers
        for attempt in range(self.retries + 1):
            request = urllib.request.Request(self.base_url + path, data, headers, method=method)
            pause = 0.5 * 2 ** attempt
            try:
                with urllib.request.urlopen(request, timeout=self.timeout) as answer:
                    text = answer.read()
                    is_json = answer.headers.get_content_type() == "application/json"
                    return json.loads(text) if is_json else text or None
            except urllib.error.HTTPError as refused:
                error = self._error(refused)
                again = refused.code == 429 or (safe and refused.code in (500, 502, 503, 504))
                after = refused.headers.get("Retry-After", "")
                pause = int(after) if after.isdecimal() else pause
            except OSError as cause:
                error, again = MailctlError(0, "no_answer", str(cause)), safe
            if not again or attempt == self.retries or pause > 60:
                raise error
            time.sleep(pause)

    @staticmethod
    def _error(refused):
        try:
            error = json.load(refused)["error"]
            if isinstance(error, str):
                return MailctlError(refused.code, error.lower(), "The API key is not valid here.")
            return MailctlError(
                refused.code, error["code"], error["message"], error["request_id"], error.get("violations", ())
            )
        except (ValueError, KeyError, TypeError):
            return MailctlError(refused.code, "bad_answer", "The answer is not one that mailctl writes.")
