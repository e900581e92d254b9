import {spawn, spawnSync} from 'node:child_process';
import {readFileSync, writeFileSync} from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import {pathToFileURL} from 'node:url';
import test from 'ava';
import {signature} from '../../../src/resources/webhooks/post.ts';
import {temporaryFolder} from '../../helpers/databases.ts';
import {freePort} from '../../helpers/free-port.ts';
import {notRunHere} from '../../helpers/not-run-here.ts';
import {waitFor} from '../../helpers/wait.ts';

/** The example of this name in docs/reference/webhooks.md. */
function exampleOf(name: string): string {
	const page = readFileSync('docs/reference/webhooks.md', 'utf8');
	return new RegExp(`<!-- test: ${name} -->\n\`\`\`\\w+\n([\\s\\S]*?)\`\`\``).exec(page)?.[1] ?? '';
}

const secret = 'whsec_3q2-7wXyZ0aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456';
const body = Buffer.from('{"type":"delivered","metadata":{"order":"Größe \\"7\\" \\u2028"}}');
const alone = {secret, next: null};
const now = signature(alone, Date.now(), body);
const old = signature(alone, Date.now() - 301_000, body);
// Far ahead: the five minutes are judged once Python has started, which takes its time.
const early = signature(alone, Date.now() + 3_600_000, body);
const overlapping = signature({secret, next: `${secret}y`}, Date.now(), body);

const cases = [
	[true, now, body, secret],
	[false, old, body, secret],
	[false, early, body, secret],
	[false, now, Buffer.from(body.toString().replace('7', '8')), secret],
	[false, now, body, `${secret}x`],
	[false, {...now, 'x-webhook-signature': ''}, body, secret],
	[false, {...now, 'x-webhook-signature': now['x-webhook-signature'].toUpperCase()}, body, secret],
	[false, {...now, 'x-webhook-timestamp': 'x'}, body, secret],
	[true, overlapping, body, secret],
	[true, overlapping, body, `${secret}y`],
	[false, overlapping, body, `${secret}x`],
	[false, {...overlapping, 'x-webhook-timestamp': '1'}, body, secret],
	[false, {}, body, secret],
] as const;

test('the Node.js example accepts only authentic requests', async t => {
	const file = path.join(await temporaryFolder(t), 'verify.mjs');
	writeFileSync(file, exampleOf('verify.mjs'));
	const {isAuthentic} = await import(pathToFileURL(file).href);
	for (const [expected, headers, bytes, key] of cases) {
		t.is(isAuthentic(headers, bytes, key), expected, JSON.stringify(headers));
	}
});

test('the Python example accepts only authentic requests', async t => {
	const file = path.join(await temporaryFolder(t), 'verify.py');
	const titled = (name: string) => name.replaceAll(/(^|-)./g, part => part.toUpperCase());
	const calls = cases.map(([, headers, bytes, key]) => [
		Object.fromEntries(Object.entries(headers).map(([name, value]) => [titled(name), value])),
		bytes.toString('base64'),
		key,
	]);
	const main = `
import base64, json, sys
calls = json.load(sys.stdin)
print(json.dumps([is_authentic(headers, base64.b64decode(body), secret) for headers, body, secret in calls]))
`;
	writeFileSync(file, exampleOf('verify.py') + main);
	const {error, stdout} = spawnSync('python3', [file], {input: JSON.stringify(calls)});
	if (error) {
		notRunHere(t, 'there is no python3');
		return;
	}
	t.deepEqual(
		JSON.parse(stdout.toString()),
		cases.map(([expected]) => expected),
	);
});

test('the Python receiver responds according to authenticity', async t => {
	const file = path.join(await temporaryFolder(t), 'hook.py');
	writeFileSync(file, exampleOf('verify.py') + exampleOf('hook.py'));
	const port = await freePort();
	const env = {...process.env, WEBHOOK_SECRET: secret, PORT: `${port}`};
	const receiver = spawn('python3', [file], {env, stdio: 'ignore'});
	t.teardown(() => receiver.kill());
	const post = async (headers: object) => {
		const answer = await fetch(`http://127.0.0.1:${port}/`, {method: 'POST', headers: {...headers}, body});
		return answer.status;
	};
	t.is(await waitFor('the receiver', async () => await post(now).catch(() => undefined)), 204);
	t.is(await post(old), 401);
});
