import test from 'ava';
import {startApi} from '../helpers/api.ts';
import {sqliteTest} from '../helpers/databases.ts';
import {rawHttp} from '../helpers/raw-http.ts';

sqliteTest(test, 'responds with 400 to a repeated significant header, even if equal', async (t, store) => {
	const api = await startApi(t, store);
	const port = Number(new URL(api.base).port);
	const body = JSON.stringify({
		from: api.workspace.sender,
		to: 'user@example.org',
		templateId: api.workspace.templateId,
	});
	const usual = [
		['Host', 'x'],
		['Authorization', `Bearer ${api.key}`],
		['Content-Type', 'application/json'],
		['Content-Length', String(body.length)],
		['Connection', 'close'],
	] as const;
	const send = (more: ReadonlyArray<readonly [string, string]>) =>
		rawHttp(
			port,
			`POST /v1/messages HTTP/1.1\r\n${[...usual, ...more].map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${body}`,
		);
	const twice: ReadonlyArray<readonly [string, string]> = [
		['Host', 'x'],
		['host', 'other.example'],
		['Authorization', `Bearer ${api.key}`],
		['AUTHORIZATION', 'Bearer key_live_x'],
		['Content-Type', 'application/json'],
		['Content-Type', 'text/plain'],
		['Content-Length', String(body.length)],
		['Content-Length', '0'],
	];
	for (const header of twice) {
		const answer = await send([header]);
		t.regex(answer, /^HTTP\/1\.1 400 /, header.join(': '));
		t.regex(answer, /"code":"bad_request"/);
		t.regex(answer, /\r\nX-Request-Id: req_/i);
	}
	for (const name of ['Idempotency-Key', 'Content-Encoding', 'Expect']) {
		const header = [name, 'identity'] as const;
		t.regex(await send([header, header]), /^HTTP\/1\.1 400 /, name);
	}
	t.deepEqual(await store.reader('messages'), []);

	// List headers may be repeated (RFC 9110 §5.3).
	const lists = ['X-Forwarded-For', 'Accept-Language', 'Via'].flatMap(name => [
		[name, 'a'] as const,
		[name, 'b'] as const,
	]);
	t.regex(await send(lists), /^HTTP\/1\.1 202 /);
	t.regex(await send([['Idempotency-Key', 'a']]), /^HTTP\/1\.1 202 /);
	t.is((await store.reader('messages')).length, 2);
});
