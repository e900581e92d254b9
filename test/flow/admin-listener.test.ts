import {readFileSync} from 'node:fs';
import {request} from 'node:http';
import path from 'node:path';
import test from 'ava';
import {prepareProgram} from '../helpers/daemon.ts';
import {oncePerFile} from '../helpers/once-per-file.ts';

type Places = {readonly http: string; readonly admin: string | null};

const pages = ['/metrics', '/docs', '/docs/json', '/openapi.json'];

/** The status of a GET, optionally with another Host header or key. */
function statusOf(url: string, headers: Record<string, string> = {}): Promise<number | undefined> {
	return new Promise((resolve, reject) => {
		request(url, {headers}, response => resolve(response.resume().statusCode))
			.on('error', reject)
			.end();
	});
}

const lab = oncePerFile(test, async scope => {
	const program = await prepareProgram(scope, {});
	const file = path.join(program.folder, 'data', 'daemon.json');
	return {program, places: () => JSON.parse(readFileSync(file, 'utf8')) as Places};
});

test.serial('serves metrics and docs on a separate listener beside a public HTTP listener', async t => {
	const {program, places} = lab();
	const daemon = await program.serve({MAILCTL_HTTP_LISTEN: '0.0.0.0:0', MAILCTL_ADMIN_LISTEN: '127.0.0.1:0'});
	const {http, admin} = places();
	const open = http.replace('0.0.0.0', '127.0.0.1');
	t.not(admin, http);
	for (const page of pages) {
		t.is(await statusOf(open + page), 404, `public ${page}`);
		t.is(await statusOf(admin + page), 200, page);
		t.is(await statusOf(admin + page, {host: 'rebound.example'}), 404, `rebound ${page}`);
		t.is(await statusOf(admin + page, {host: 'localhost:8126'}), 200, `localhost ${page}`);
	}
	for (const health of ['/healthz', '/readyz']) {
		t.is(await statusOf(open + health), 200);
		t.is(await statusOf(admin + health), 200);
	}
	t.is(await statusOf(`${open}/v1/messages`), 401);
	t.is(await statusOf(`${admin}/v1/messages`), 404, 'the API is elsewhere');
	const described = (await (await fetch(`${admin}/openapi.json`)).json()) as {paths: object};
	t.true('/v1/messages' in described.paths);
	t.regex(await program.log(), new RegExp(`"event":"listening","http":"${http}","admin":"${admin}"`));
	t.is(await daemon.stop(), 0);
});

test.serial('a token opens /metrics on both listeners; a loopback listener serves all; off disables it', async t => {
	const {program, places} = lab();
	const token = {MAILCTL_METRICS_TOKEN: 'scrape-me'};
	const shared = await program.serve({...token, MAILCTL_AUTH_FAILURES: '2/3600'});
	const {http, admin} = places();
	t.is(admin, http);
	t.is(await statusOf(`${http}/docs`), 200);
	t.is(await statusOf(`${http}/metrics`), 401);
	const tries = ['scrape-mE', 'b', 'c'].map(token => statusOf(`${http}/metrics`, {authorization: `Bearer ${token}`}));
	t.deepEqual((await Promise.all(tries)).toSorted(), [401, 401, 429], 'wrong tokens wait as wrong keys do');
	t.is(await statusOf(`${http}/metrics`, {authorization: 'Bearer scrape-me', host: 'mail.shop.example'}), 200);
	t.is(await shared.stop(), 0);

	const apart = await program.serve({...token, MAILCTL_ADMIN_LISTEN: 'off'});
	const off = places();
	t.is(off.admin, null);
	t.is(await statusOf(`${off.http}/docs`), 404);
	t.is(await statusOf(`${off.http}/openapi.json`), 404);
	t.is(await statusOf(`${off.http}/metrics`, {authorization: 'Bearer scrape-me'}), 200);
	t.is(await apart.stop(), 0);
});
