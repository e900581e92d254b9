import path from 'node:path';
import test, {type ExecutionContext} from 'ava';
import {simpleParser} from 'mailparser';
import {newCli} from '../helpers/cli.ts';
import {type Program, type Scope, type Settings, type Welcome, welcomeOf} from '../helpers/daemon.ts';
import {type FakeDns, startFakeDns} from '../helpers/fake-dns.ts';
import {freePort} from '../helpers/free-port.ts';
import {oncePerFile} from '../helpers/once-per-file.ts';
import {startReceiver} from '../helpers/receiver.ts';
import {programs, withFile} from '../helpers/replies.ts';
import {multipartOf} from '../helpers/report-mails.ts';
import {inboundPort} from '../helpers/sent-recipients.ts';
import {call} from '../helpers/shop.ts';
import {talkTo} from '../helpers/smtp-talk.ts';
import {waitFor} from '../helpers/wait.ts';
import {certificate, host, prepare} from '../helpers/webhook-lab.ts';

type Mail = {readonly id: string; readonly in_reply_to: string | null; readonly [field: string]: unknown};
type Lab = {
	readonly program: Program;
	readonly welcome: Welcome;
	readonly url: string;
	readonly port: number;
	readonly dns: FakeDns;
};

const support = 'support@in.example.com';
const bounces = 'bounces.mail.example';

async function start(scope: Scope, more: Settings = {}): Promise<Lab> {
	const dns = await startFakeDns(scope, {[host]: {a: ['127.0.0.1']}});
	const program = await prepare(scope, {
		...{
			MAILCTL_INBOUND_LISTEN: '127.0.0.1:0',
			MAILCTL_RETURN_PATH_DOMAIN: bounces,
			MAILCTL_DNS_SERVERS: dns.server,
		},
		...more,
	});
	const {url} = await program.serve();
	const welcome = await welcomeOf(program);
	return {program, welcome, url, dns, port: inboundPort(path.join(program.folder, 'data'))};
}

/** Fixtures that most tests share. */
const shared = oncePerFile(test, scope => start(scope, {MAILCTL_LOG_LEVEL: 'debug'}));

/** The same with a workspace of its own, its key, and an address at which it receives. */
async function startIn(workspace: string, address: string): Promise<Lab & {readonly inside: readonly string[]}> {
	const lab = shared();
	const inside = ['--workspace', workspace];
	await lab.program.cli('workspace', 'create', '--name', workspace);
	await lab.program.cli('inbound', 'add', address, ...inside);
	const {key} = await lab.program.cli<{key: string}>('key', 'create', '--name', 'test', ...inside);
	return {...lab, welcome: {...lab.welcome, key}, inside};
}

/** Submits a message; returns the reply to RCPT if that is refused, otherwise to the data. */
async function bring(
	t: ExecutionContext,
	lab: Lab,
	to: string,
	mail: string,
	sender = 'ada@example.net',
): Promise<string> {
	const talk = await talkTo(t, lab.port);
	await talk.reply();
	await talk.say('EHLO mx.example.net');
	await talk.say(`MAIL FROM:<${sender}>`);
	const answer = await talk.say(`RCPT TO:<${to}>`);
	const end = answer.startsWith('250') ? await talk.data(mail) : answer;
	talk.end();
	return end;
}

/** The same to an address that the daemon may not know yet: until it is accepted. */
const bringFirst = async (...mail: Parameters<typeof bring>) =>
	await waitFor('the address counts', async () => (await bring(...mail)).startsWith('250'));

const list = async (lab: Lab, query = ''): Promise<Mail[]> =>
	((await call(`${lab.url}/v1/received${query}`, lab.welcome.key)).body as {data: Mail[]}).data;

const arrived = async (lab: Lab, count: number): Promise<Mail[]> =>
	await waitFor(`${count} mails`, async () => {
		const all = await list(lab, '?limit=100');
		return all.length >= count && all;
	});

async function send(
	lab: Lab,
	more: object = {},
): Promise<{id: string; messageId: string; replyTo: string | undefined}> {
	const {key, from, templateId} = lab.welcome;
	const {status, body} = await call(`${lab.url}/v1/messages`, key, {
		from,
		to: 'ada@example.net',
		templateId,
		...more,
	});
	if (status !== 202) {
		throw new Error(JSON.stringify(body));
	}
	const {id} = body as {id: string};
	const headers = {authorization: `Bearer ${key}`};
	const raw = await waitFor('the mail', async () => {
		const answer = await fetch(`${lab.url}/v1/messages/${id}/raw`, {headers});
		return answer.status === 200 && (await answer.text());
	});
	const {messageId = '', replyTo} = await simpleParser(raw);
	return {id, messageId, replyTo: replyTo?.value[0]?.address};
}

test.serial('a sender whose DNS times out delays no other message; postmaster messages are not listed', async t => {
	const address = 'support@in.quiet.example';
	const lab = await startIn('quiet', address);
	for (const name of ['slow.example', '_dmarc.slow.example', 's._domainkey.slow.example']) {
		lab.dns.zone[name] = 'timeout';
	}
	const slow =
		'DKIM-Signature: v=1; d=slow.example; s=s; b=x\r\nFrom: eve@slow.example\r\nSubject: slow\r\n\r\n.\r\n';
	const mail = 'From: ada@example.net\r\nSubject: quick\r\n\r\n.\r\n';
	await bring(t, lab, `postmaster@${bounces}`, mail, 'ada@operator.example');
	await bringFirst(t, lab, address, slow, 'eve@slow.example');
	await bring(t, lab, address, mail);
	// The slow one came first and is read last: lists go by the time at which mail came.
	const [newest, oldest] = await arrived(lab, 2);
	const log = await lab.program.log();
	const keysOf = (event: string) =>
		[...log.matchAll(new RegExp(`"event":"${event}","inbound":"(\\w+)"`, 'g'))].map(([, key = '']) => key);
	const [, slowKey = '', quickKey = ''] = keysOf('inbound_taken');
	const read = keysOf('inbound_read').filter(key => key === slowKey || key === quickKey);
	t.deepEqual(read, [quickKey, slowKey]);
	t.like(newest, {subject: 'quick', spf: {result: 'none'}});
	t.like(oldest, {
		subject: 'slow',
		spf: {result: 'temperror'},
		dmarc: {result: 'temperror'},
	});
	t.false(lab.dns.queries.includes('TXT operator.example'));
	t.true(lab.dns.queries.includes('TXT example.net'));
});

test.serial('matches replies of five mail programs by Message-ID and by the replyTracking address', async t => {
	const lab = shared();
	await lab.program.cli('inbound', 'add', support, '--workspace', 'default');
	const unmatched = await lab.program.cli('bounce', 'unmatched');
	const {id, messageId} = await send(lab);
	for (const [name, write] of Object.entries(programs)) {
		const mail = write({from: 'ada@example.net', to: support, messageId, said: `Thank you, says ${name}`});
		await bringFirst(t, lab, support, mail);
	}
	const answers = await arrived(lab, 5);
	t.deepEqual(
		answers.map(mail => [
			mail.in_reply_to,
			mail.from,
			mail.from_name === null,
			mail.to,
			mail.automatic,
			mail.fault,
		]),
		answers.map(() => [id, 'ada@example.net', false, [support], false, null]),
	);
	t.is((await list(lab, `?in_reply_to=${id}`)).length, 5);
	t.is((await list(lab, '?from=ADA@example.net')).length, 5);
	t.is((await list(lab, `?to=${support}&from=eve@example.net`)).length, 0);
	const subjects = ['RE: Your order', 'Re: Bestellung – danke', ...new Array(3).fill('Re: Your order')];
	t.deepEqual(answers.map(({subject}) => subject).sort(), subjects);

	const tracked = await send(lab, {replyTracking: true, replyToName: 'Ada’s shop'});
	t.regex(tracked.replyTo ?? '', /^reply\+p[0-9a-z]{44}@bounces\.mail\.example$/);
	t.true((tracked.replyTo ?? '').indexOf('@') <= 64);
	const bare = 'From: ada@example.net\r\nSubject: no thread\r\n\r\nYes.\r\n';
	const quoted = (tracked.replyTo ?? '').replace(/^[^@]*/, '"$&"').toUpperCase();
	t.regex(await bring(t, lab, quoted, bare, '"ada"@example.net'), /^250/);
	const [newest] = await arrived(lab, 6);
	t.like(newest, {in_reply_to: tracked.id, to: [tracked.replyTo]});
	const forged = (tracked.replyTo ?? '').replace(/.@/, text => (text[0] === '0' ? '1@' : '0@'));
	t.regex(await bring(t, lab, forged, bare), /^550 5\.1\.1/);

	type Shown = {recipients: Array<{reports: unknown[]}>; answers: Array<{id: string; from: string}>};
	const shown = await lab.program.cli<Shown>('message', 'show', id);
	t.deepEqual(shown.answers.map(one => one.id).sort(), answers.map(one => one.id).sort());
	const text = String(await lab.program.cliBytes('message', 'show', id));
	t.regex(text, new RegExp(`^Replies\\n  2.* ${answers[0]?.id}  ada@example.net$`, 'm'));
	for (const [words, found] of [
		['order', 4],
		['danke BESTELLUNG', 1],
		['danke order', 0],
	] as const) {
		t.is((await list(lab, `?subject=${encodeURIComponent(words)}`)).length, found, words);
	}
	t.deepEqual(
		shown.recipients.flatMap(({reports}) => reports),
		[],
		'an answer is no report',
	);
	t.deepEqual(await lab.program.cli('bounce', 'unmatched'), unmatched);
	// A bounce is both: a mail to the address, and a report.
	const status = 'Final-Recipient: rfc822; ada@example.net\nAction: failed\nStatus: 5.1.1';
	const dsn = multipartOf({
		parts: [
			`Content-Type: message/delivery-status\n\nReporting-MTA: dns; mx.example.net\n\n${status}\n`,
			`Content-Type: text/rfc822-headers\n\nMessage-ID: ${messageId}\nFrom: ${lab.welcome.from}\n`,
		],
	});
	t.regex(await bring(t, lab, support, dsn.toString('latin1').replaceAll(/\r?\n/g, '\r\n'), ''), /^250/);
	t.like((await arrived(lab, 7))[0], {automatic: true, to: [support]});
	// An address with a token is covered by a wildcard too, and named once.
	await lab.program.cli('inbound', 'add', '*@in.example.com', '--workspace', 'default');
	const covered = (tracked.replyTo ?? '').replace(/@.*/, '@in.example.com');
	t.regex(await bring(t, lab, covered, bare), /^250/);
	t.like((await arrived(lab, 8))[0], {to: [covered], in_reply_to: tracked.id});
	const {recipients} = await lab.program.cli<{recipients: Array<{reports: unknown[]}>}>('message', 'show', id);
	t.is(recipients[0]?.reports.length, 1);

	// Another workspace learns of no message that is not its own.
	await lab.program.cli('workspace', 'create', '--name', 'other');
	await lab.program.cli('inbound', 'add', 'x@other.example', '--workspace', 'other');
	const other = (await lab.program.cli<{key: string}>('key', 'create', '--name', 'other', '--workspace', 'other'))
		.key;
	const foreign = `From: ada@example.net\r\nIn-Reply-To: ${messageId}\r\n\r\nYes.\r\n`;
	await bringFirst(t, lab, 'x@other.example', foreign);
	const theirs = await waitFor('it is there', async () => {
		const {data} = (await call(`${lab.url}/v1/received`, other)).body as {data: Mail[]};
		return data[0];
	});
	t.is(theirs.in_reply_to, null);
	t.is(
		(
			await fetch(`${lab.url}/v1/received/${theirs.id}`, {
				headers: {authorization: `Bearer ${lab.welcome.key}`},
			})
		).status,
		404,
	);
	const refusedBoth = await call(`${lab.url}/v1/messages`, lab.welcome.key, {
		...{from: lab.welcome.from, to: 'ada@example.net', templateId: lab.welcome.templateId},
		...{replyTracking: true, replyTo: 'x@example.com'},
	});
	t.is(refusedBoth.status, 422);
});

test.serial('posts the beginning of a long text to endpoints; the API returns more of it', async t => {
	const receiver = await startReceiver(t, certificate, {answer: (_, response) => void response.end()});
	const address = 'support@in.long.example';
	const lab = await startIn('long', address);
	const {key} = lab.welcome;
	const hook = {url: `https://${host}:${receiver.port}/in`, events: ['received']};
	t.is((await call(`${lab.url}/v1/webhooks`, key, hook)).status, 201);
	const mail = `From: ada@example.net\r\nSubject: long\r\n\r\n${`${'word '.repeat(14)}\r\n`.repeat(1000)}`;
	await bringFirst(t, lab, address, mail);
	const post = await waitFor('the post', () => receiver.received[0]);
	const {detail} = JSON.parse(post.body.toString());
	t.true(detail.truncated);
	t.is(detail.text.length, 65_536);
	const {body} = await call(`${lab.url}/v1/received/${detail.id}`, key);
	t.like(body, {truncated: false});
	t.true((body as {text: string}).text.length > 70_000);
});

test.serial('posts, shows and downloads a received message and its files until it is deleted', async t => {
	const receiver = await startReceiver(t, certificate, {answer: (_, response) => void response.end()});
	const lab = await startIn('files', '*@in.files.example');
	const sender = 'ada@ada.example';
	lab.dns.zone['ada.example'] = {txt: ['v=spf1 ip4:127.0.0.1 -all']};
	lab.dns.zone['_dmarc.ada.example'] = {txt: ['v=DMARC1; p=reject']};
	const {key} = lab.welcome;
	const hook = {url: `https://${host}:${receiver.port}/in`, events: ['received']};
	t.is((await call(`${lab.url}/v1/webhooks`, key, hook)).status, 201);
	const mail = withFile({from: sender, to: 'any@in.files.example', said: 'See these'});
	await bringFirst(t, lab, 'any@in.files.example', mail, sender);
	const [first] = await arrived(lab, 1);
	const id = first?.id ?? '';
	t.like(first, {spf: {result: 'pass', domain: 'ada.example'}, dkim: {result: 'none', domain: null}});
	t.like(first, {dmarc: {result: 'pass', domain: 'ada.example'}, in_reply_to: null, to: ['any@in.files.example']});

	const post = await waitFor('the post', () => receiver.received[0]);
	const body = JSON.parse(post.body.toString());
	t.like(body, {type: 'received', message_id: null, recipient: null, metadata: {}});
	t.like(body.detail, {
		id,
		from: sender,
		subject: 'Photos',
		text: null,
		truncated: false,
		in_reply_to: null,
	});
	t.regex(body.detail.html, /See these/);
	t.deepEqual(body.detail.headers[0], {name: 'from', value: sender});
	const [file] = body.detail.attachments as Array<Record<string, unknown>>;
	t.like(file, {n: 0, name: '../../etc/pass wd.svg', type: 'image/png', size: 21, content_id: 'one'});

	const headers = {authorization: `Bearer ${key}`};
	const download = await fetch(`${lab.url}${new URL(String(file?.url)).pathname}`, {headers});
	t.is(await download.text(), '<svg onload=alert(1)>');
	t.is(download.headers.get('content-type'), 'application/octet-stream');
	t.is(download.headers.get('x-content-type-options'), 'nosniff');
	t.is(download.headers.get('content-disposition'), `attachment; filename="${id}-0"`);
	const raw = await fetch(`${lab.url}/v1/received/${id}/raw`, {headers});
	t.is(await raw.text(), mail);
	t.is(raw.headers.get('content-type'), 'message/rfc822');
	for (const n of ['1', '00', 'x', '-1', '99999']) {
		t.is((await fetch(`${lab.url}/v1/received/${id}/attachments/${n}`, {headers})).status, 404, n);
	}
	t.like((await call(`${lab.url}/v1/received/${id}`, key)).body, {id, text: null, truncated: false, fault: null});

	const forTests = ['key', 'create', '--name', 'ci', '--mode', 'test', ...lab.inside];
	const {key: test} = await lab.program.cli<{key: string}>(...forTests);
	t.deepEqual((await call(`${lab.url}/v1/received`, test)).body, {data: [], next_cursor: null});
	for (const place of ['', '/raw', '/attachments/0']) {
		const {status} = await fetch(`${lab.url}/v1/received/${id}${place}`, {
			headers: {authorization: `Bearer ${test}`},
		});
		t.is(status, 404, `a test key sees no real mail: ${place}`);
	}

	const removed = await fetch(`${lab.url}/v1/received/${id}`, {method: 'DELETE', headers});
	t.is(removed.status, 204);
	t.deepEqual(await list(lab), []);
	const endpoints = (await call(`${lab.url}/v1/webhooks`, key)).body as {data: Array<{id: string}>};
	const deliveries = await call(`${lab.url}/v1/webhooks/${endpoints.data[0]?.id}/deliveries`, key);
	t.deepEqual((deliveries.body as {data: unknown[]}).data, [], 'what was posted of it is gone too');
	t.regex(await bring(t, lab, 'any@in.files.example', mail, sender), /^250/);
	t.regex(await bring(t, lab, 'new@in.files.example', mail, sender), /^250/);
	t.is((await arrived(lab, 1)).length, 1, 'the same mail does not come in again');
});

test.serial('does not relay, stops loops, and does not expose messages retained for the operator', async t => {
	const address = 'support@in.loops.example';
	const lab = await startIn('loops', address);
	const {PATH: _, ...settings} = lab.program.environment.env as Record<string, string>;
	const cli = await newCli(t, settings);
	const plain = 'From: ada@example.net\r\nSubject: hello\r\n\r\nHello.\r\n';
	await bringFirst(t, lab, address, plain);
	for (const [to, answer] of [
		['other@in.loops.example', /^550 5\.1\.1/],
		['someone@elsewhere.example', /^550 5\.7\.1/],
		['support@in.loops.example@elsewhere.example', /^5/],
		['support%elsewhere.example@in.loops.example', /^550 5\.1\.1/],
		['postmaster@in.loops.example', /^250/],
	] as const) {
		t.regex(await bring(t, lab, to, `X-To: ${to}\r\n${plain}`), answer, to);
	}
	const hops = `${'Received: from a by b; Fri, 27 Nov 2026 10:00:00 +0000\r\n'.repeat(30)}${plain}`;
	const {stdout} = await cli.run('doctor');
	t.regex(stdout.replaceAll(/\s+/g, ' '), /inbound-mx .*in\.loops\.example has no MX/, 'in capture mode too');
	t.regex(await bring(t, lab, address, hops), /^554 5\.4\.6 Mail loop detected/);
	t.regex(await bring(t, lab, address, `X-Loop: ${bounces}\r\n${plain}`), /^554 5\.4\.6 Mail loop detected/);
	for (const wrong of [
		'dmarc@in.loops.example',
		'postmaster@in.loops.example',
		`x@${bounces}`,
		'no address',
		'*@',
		'a*@in.loops.example',
	]) {
		const {code, stderr} = await cli.run('inbound', 'add', wrong, ...lab.inside);
		t.is(code, 65, wrong);
		t.regex(stderr, /^mailctl: address must /);
	}
	await lab.program.cli('inbound', 'add', '*@In.Müller.example', ...lab.inside);
	for (const text of ['*@in.müller.example', '*@in.xn--mller-kva.EXAMPLE']) {
		t.is(
			(await lab.program.cli<{address: string}>('inbound', 'show', text, ...lab.inside)).address,
			'*@in.xn--mller-kva.example',
		);
	}
	const api = await call(`${lab.url}/v1/inbound`, lab.welcome.key, {address: 'a@unverified.example'});
	t.is(api.status, 422);

	// A bounce and a responder's mail are marked, so that no program answers them.
	t.regex(await bring(t, lab, address, `Auto-Submitted: auto-replied\r\n${plain}`), /^250/);
	t.regex(await bring(t, lab, address, `X-Bounce: 1\r\n${plain}`, ''), /^250/);
	const all = await arrived(lab, 3);
	t.deepEqual(all.map(({automatic}) => automatic).sort(), [false, true, true]);
	await lab.program.cli('contact', 'erase', 'ada@example.net', '--yes', ...lab.inside);
	t.deepEqual(await list(lab), []);
});

test.serial('stops a loop between two installations whose programs reply to each other', async t => {
	const receiver = await startReceiver(t, certificate, {answer: (_, response) => void response.end()});
	const ports = [await freePort(), await freePort()] as const;
	const labs = await Promise.all(
		ports.map(async (port, index) =>
			start(t, {
				MAILCTL_INBOUND_LISTEN: `127.0.0.1:${port}`,
				MAILCTL_DELIVERY: 'relay',
				MAILCTL_RELAY_URL: `smtp://127.0.0.1:${ports[1 - index]}?tls=none`,
				MAILCTL_RETURN_PATH_DOMAIN: `bounces.${index}.example`,
			}),
		),
	);
	for (const [index, lab] of labs.entries()) {
		await lab.program.cli('inbound', 'add', `support@in.${index}.example`);
		const hook = {url: `https://${host}:${receiver.port}/${index}`, events: ['received']};
		t.is((await call(`${lab.url}/v1/webhooks`, lab.welcome.key, hook)).status, 201);
	}
	const said = (index: number) =>
		receiver.received.filter(one => one.path === `/${index}`).map(one => JSON.parse(one.body.toString()).detail);
	/** Verifies a request as the guide recommends. */
	const answer = async (index: number, to: string): Promise<Record<string, unknown>> => {
		const detail = await waitFor(`a mail at ${index}`, () => said(index)[0]);
		if (!detail.automatic) {
			const {key, from, templateId} = (labs[index] as Lab).welcome;
			await call(`${labs[index]?.url}/v1/messages`, key, {from, to, templateId});
		}
		return detail;
	};
	const first = labs[0] as Lab;
	const hello = 'From: support@in.1.example\r\nSubject: hello\r\n\r\nHello.\r\n';
	await bringFirst(t, first, 'support@in.0.example', hello);
	t.false((await answer(0, 'support@in.1.example')).automatic);
	t.true((await answer(1, 'support@in.0.example')).automatic, 'who gets an answer of a program does not answer it');
	t.deepEqual([said(0).length, said(1).length], [1, 1]);
});
