import test, {type TestFn} from 'ava';
import {systemClock} from '../../src/kit/clock.ts';
import {startApi, type TestApi} from '../helpers/api.ts';
import {sqliteTest} from '../helpers/databases.ts';
import {lists, oneClick, press, sendMail, show, tokenOf, urlencoded} from '../helpers/hosted.ts';
import {rawHttp} from '../helpers/raw-http.ts';

const serially = test.serial as TestFn;
const pages = ['/unsubscribe', '/preferences'] as const;

/** Sends only the headers of a form, so that the response cannot depend on the body. */
async function withoutBody({base}: TestApi, path: string, length = 100_000): Promise<number> {
	const {host, port} = new URL(base);
	const head = [`POST ${path} HTTP/1.1`, `Host: ${host}`, 'Connection: close', `Content-Type: ${urlencoded}`];
	const response = await rawHttp(Number(port), `${[...head, `Content-Length: ${length}`].join('\r\n')}\r\n\r\n`);
	return Number(response.slice(9, 12));
}

sqliteTest(serially, 'rejects a forged token in the URL before reading the body', async (t, store) => {
	const api = await startApi(t, store, {clock: {...systemClock, monotonic: () => 0}});
	for (const page of pages) {
		for (const query of [
			'token=x',
			'token=',
			'token=x&token=y',
			'token=%E0%A4%A',
			`token=x&${'a=%ff&'.repeat(2000)}`,
		]) {
			t.is(await withoutBody(api, `${page}?${query}`), 400, `${page}?${query.slice(0, 20)}`);
		}
	}
});

sqliteTest(serially, 'rejects a client with too many forged tokens before reading its forms', async (t, store) => {
	const api = await startApi(t, store, {clock: {...systemClock, monotonic: () => 0}});
	const {path} = await sendMail(api, {});
	for (let n = 0; n < 121; n++) {
		await press(api, '/preferences', `token=${n}`);
	}
	for (const page of pages) {
		t.is(await withoutBody(api, page), 429);
		t.is(await withoutBody(api, `${page}?token=x`), 429);
	}
	t.is((await press(api, path, oneClick)).status, 200, 'links that work are never refused');
});

sqliteTest(serially, 'accepts a token in the form if the URL has none, in a form of up to 16 KiB', async (t, store) => {
	const api = await startApi(t, store);
	const {path} = await sendMail(api, {});
	const token = tokenOf(path);
	const padded = (length: number) => {
		const body = `token=${token}&action=all&more=`;
		return body + 'x'.repeat(length - body.length);
	};
	t.is((await press(api, '/preferences', padded(16 * 1024))).status, 200);
	t.is((await press(api, '/preferences', padded(16 * 1024 + 1))).status, 413);
	t.is((await press(api, `/preferences?token=${token}`, padded(128 * 1024))).status, 200);
	t.is((await press(api, `/preferences?token=${token}`, padded(128 * 1024 + 1))).status, 413);
	t.is((await press(api, '/unsubscribe', padded(8 * 1024))).status, 200);
	t.is((await press(api, '/unsubscribe', padded(8 * 1024 + 1))).status, 413);
	t.is((await lists(api)).length, 1);
});

sqliteTest(
	serially,
	'unsubscribes with broken escapes or thousands of fields or parts in the form',
	async (t, store) => {
		const api = await startApi(t, store);
		const {path} = await sendMail(api, {});
		const bodies = [
			[urlencoded, `${'a=%E0%A4%A&'.repeat(700)}${oneClick}`],
			[urlencoded, 'a&'.repeat(4000)],
			['multipart/form-data; boundary=b', `${'--b\n'.repeat(2000)}--b--`],
			['multipart/form-data; boundary=b', '--b \r\n'.repeat(1300)],
		] as const;
		for (const [type, body] of bodies) {
			const {status, html} = await show(api, path, {method: 'POST', headers: {'content-type': type}, body});
			t.is(status, 200);
			t.regex(html, /<h1>You are (?:already )?unsubscribed<\/h1>/i);
		}
		t.is((await lists(api)).length, 1);
	},
);
