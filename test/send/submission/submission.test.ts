import {once} from 'node:events';
import {connect as connectTls} from 'node:tls';
import test, {type ExecutionContext} from 'ava';
import type {Caller} from '../../../src/api/caller.ts';
import type {Settings} from '../../../src/config/settings.ts';
import {createIntake, createSubmission} from '../../../src/daemon/intake.ts';
import {createObserver} from '../../../src/daemon/observer.ts';
import {systemClock} from '../../../src/kit/clock.ts';
import type {RateLimit} from '../../../src/mail/api-key.ts';
import {SubmissionListener} from '../../../src/send/submission/submission-listener.ts';
import type {Submission} from '../../../src/send/submission/submit.ts';
import type {Store} from '../../../src/store/store.ts';
import {makeCertificate} from '../../helpers/certificate.ts';
import {sqliteTest, storeTest} from '../../helpers/databases.ts';
import {type SmtpTalk, talkTo} from '../../helpers/smtp-talk.ts';
import {testVault} from '../../helpers/tools.ts';
import {clearOfMidnight} from '../../helpers/wait.ts';
import {addKey, addWorkspace, newId, type Workspace} from '../../helpers/workspace.ts';

const at = '2026-06-09T10:00:00.000Z';
const mail = ['From: Shop <hello@example.com>', 'To: ann@example.org', 'Subject: Hello', '', 'body', ''].join('\r\n');

type Lab = {
	readonly workspace: Workspace;
	readonly key: string;
	readonly talk: () => Promise<SmtpTalk>;
	readonly forget: () => void;
	/** The counted metrics: accepted messages, and reasons of refusals. */
	readonly counted: ReadonlyArray<number | string>;
};
type LabOptions = {
	readonly hasRoom?: () => boolean;
	readonly mayAccept?: () => boolean;
	readonly authFailures?: RateLimit;
	readonly rateLimit?: RateLimit;
};

/** A workspace with a key and the daemon's listener on a port of its own. */
async function openLab(t: ExecutionContext, store: Store, options: LabOptions = {}): Promise<Lab> {
	const {hasRoom = () => true, mayAccept = () => true, authFailures = null, rateLimit = null} = options;
	const workspace = await addWorkspace(store, 'acme');
	const settings = {
		roles: ['api'],
		hostname: 'mail.test',
		submissionListen: [{host: '127.0.0.1', port: 0}],
		submissionTlsCert: null,
		submissionTlsKey: null,
	};
	const counted: Array<number | string> = [];
	const clock = systemClock;
	const intake = createIntake(
		{live: () => ({rateLimit, authFailures, idempotencyRetention: 1000}), store, vault: testVault, clock, newId},
		{onWriting: () => undefined, onAccepted: () => undefined},
	);
	const observer = createObserver({
		metrics: {
			submittedMails: {inc: () => undefined},
			submittedMessages: {inc: (messages: number) => counted.push(messages)},
			submissionRefusals: {inc: ({reason}: {reason: string}) => counted.push(reason)},
		} as never,
		logger: {debug: () => undefined, info: () => undefined, warn: () => undefined} as never,
		infrastructure: {countAttempt: () => null},
		storeFailed: error => t.fail(String(error)),
		clock,
	});
	const certificates = {own: () => null, onChange: () => undefined} as never;
	const submission = createSubmission(
		{
			settings: settings as unknown as Settings,
			store,
			clock,
			newId,
			mayAccept,
			hasSpace: hasRoom,
			observer,
			certificates,
		},
		intake,
	);
	const address = await submission.listen();
	t.teardown(submission.close);
	return {
		workspace,
		key: await addKey(store, workspace.id),
		forget: intake.forget,
		counted,
		async talk() {
			const talk = await talkTo(t, Number(address?.split(':')[1]));
			await talk.reply();
			await talk.say('EHLO peer.test');
			return talk;
		},
	};
}

const plain = (key: string) => `AUTH PLAIN ${Buffer.from(`\0anyone\0${key}`).toString('base64')}`;

/** A session that has logged in. */
async function loggedIn({talk, key}: Lab): Promise<SmtpTalk> {
	const session = await talk();
	await session.say(plain(key));
	return session;
}

/** Submits a message; returns the reply to it or to its first refused recipient. */
async function submit(session: SmtpTalk, to: readonly string[], bytes: string | Buffer = mail): Promise<string> {
	await session.say('RSET');
	const begun = await session.say('MAIL FROM:<any@where.example>');
	if (!begun.startsWith('250')) {
		return begun;
	}
	for (const address of to) {
		const reply = await session.say(`RCPT TO:<${address}>`);
		if (!reply.startsWith('250')) {
			return reply;
		}
	}
	return await session.data(bytes);
}

const stored = async ({reader}: Store) => await reader('messages').orderBy('id').select('id', 'to_address', 'from_key');

sqliteTest(test, 'stores a message for each recipient before it replies 250', async (t, store) => {
	const lab = await openLab(t, store);
	const session = await loggedIn(lab);
	const reply = await submit(
		session,
		['ann@example.org', 'Hidden@example.org', 'hidden@EXAMPLE.org'],
		`Bcc: x@y.example\r\n${mail}`,
	);
	const messages = await stored(store);
	t.deepEqual(
		messages.map(row => row.to_address),
		['ann@example.org', 'hidden@EXAMPLE.org'],
	);
	t.is(reply, `250 2.0.0 Ok ${messages[0].id} and 1 more`);
	const sources = await store.reader('attachments').pluck('content');
	t.is(sources.length, 2);
	for (const source of sources) {
		t.regex(
			String(source),
			/^Received: by mail\.test \(mailctl\) with ESMTPA;\r\n .*\r\nFrom: Shop <hello@example\.com>\r\n/,
		);
		t.false(String(source).includes('y.example'));
	}
	const templates = await store.reader('templates').where({name: 'submission'}).pluck('latest_version');
	t.deepEqual(templates, [1], 'made once');
	t.regex(await submit(session, ['ann@example.org']), /^250 2\.0\.0 Ok msg_[0-9a-z]{26}$/);
	t.is((await store.reader('template_versions').select('id')).length, 2);
});

sqliteTest(test, 'logs in with PLAIN or LOGIN and any user name, or reports why a key is invalid', async (t, store) => {
	const lab = await openLab(t, store, {authFailures: {requests: 3, windowMs: 60_000}});
	const session = await lab.talk();
	t.is(
		await session.say('MAIL FROM:<a@example.com>'),
		'530 5.7.0 Authenticate first: any user name, an API key as the password',
	);
	const noScope = await addKey(store, lab.workspace.id, {scopes: '["messages:send"]'});
	t.regex(await session.say(plain(noScope)), /^535 5\.7\.1 The key lacks the scope messages:submit/);
	const revoked = await addKey(store, lab.workspace.id, {revoked_at: at});
	for (const key of [revoked, 'hunter2', '']) {
		t.is(await session.say(plain(key)), '535 5.7.8 The password must be an API key');
	}
	t.regex(await session.say(plain('hunter2')), /^454 4\.7\.0 Too many invalid keys/);
	await session.say('AUTH LOGIN');
	await session.say(Buffer.from('gitea').toString('base64'));
	t.regex(await session.say(Buffer.from(lab.key).toString('base64')), /^235 2\.7\.0 /, 'a valid key always passes');
	t.regex(await submit(session, ['ann@example.org']), /^250 2\.0\.0 Ok msg_/);
	await store.database('api_keys').update({revoked_at: at});
	lab.forget();
	t.regex(await submit(session, ['ann@example.org']), /^454 4\.7\.0 /, 'it may be revoked in a session');
	t.deepEqual(lab.counted, ['key_scope', 'key', 'key', 'key', 'too_many_failures', 1, 'too_many_failures']);
});

sqliteTest(test, 'rejects recipients that must not get messages, and senders that must not send', async (t, store) => {
	const lab = await openLab(t, store);
	const {id} = lab.workspace;
	const row = {address_key: 'out@example.org', address: 'out@example.org', created_at: at};
	const suppressed = {address_key: 'no@example.org', address: 'no@example.org', reason: 'manual', source: 'api'};
	await store.database('suppressions').insert({id: newId('sup'), workspace_id: id, ...suppressed, created_at: at});
	await store
		.database('topics')
		.insert({id: newId('usg'), workspace_id: id, code: 'news', name: 'News', created_at: at});
	await store.database('topic_optouts').insert({workspace_id: id, code: 'news', source: 'one-click', ...row});
	const session = await loggedIn(lab);
	const topical = `X-Mailctl-Topic: news\r\n${mail}`;

	t.is(await submit(session, ['NO@example.org']), '550 5.7.1 NO@example.org is on the suppression list');
	t.regex(await submit(session, ['a.@example.org']), /^501 /);
	t.regex(await submit(session, ['a@example']), /^553 5\.1\.3 The address must have a full domain name/);
	t.regex(
		await submit(session, ['ann@example.org'], mail.replace('hello@', 'ceo@')),
		/^550 5\.7\.1 ceo@example\.com is not an active/,
	);
	t.is(
		await submit(session, ['out@example.org'], topical),
		'550 5.7.1 out@example.org has unsubscribed from the topic news',
	);
	t.regex(
		await submit(session, ['a@example.org'], topical.replace('news', 'nws')),
		/^550 5\.7\.1 X-Mailctl-Topic does not name/,
	);
	t.regex(
		await submit(session, ['a@example.org'], mail.replace('Subject', 'Subject: x\nBcc')),
		/^550 5\.6\.0 .*bare CR or LF/,
	);
	t.regex(
		await submit(session, ['a@example.org'], `From: b@example.com\r\n${mail}`),
		/^550 5\.6\.0 .*more than one from/,
	);
	t.deepEqual(await stored(store), [], 'nothing is kept of what is refused');

	t.regex(
		await submit(session, ['out@example.org', 'ann@example.org'], topical),
		/^250 2\.0\.0 Ok msg_\w+; not sent to 1: 5\.7\.1 out@example\.org has unsubscribed/,
	);
	t.deepEqual(
		(await stored(store)).map(message => message.to_address),
		['ann@example.org'],
	);
	t.deepEqual(lab.counted, [
		...['suppressed', 'address', 'sender', 'unsubscribed', 'topic', 'malformed', 'malformed'],
		...[1, 'unsubscribed'],
	]);
});

sqliteTest(test, 'a priority in a header field overrides that of the envelope', async (t, store) => {
	const lab = await openLab(t, store);
	const session = await loggedIn(lab);
	t.regex(await session.say('EHLO client.example'), / 250[ -]MT-PRIORITY\b/);
	for (const [parameter, field, level] of [
		['', '', 0],
		[' MT-PRIORITY=3', '', 1],
		[' MT-PRIORITY=-9', '', -1],
		[' mt-priority=0', '', 0],
		['', 'X-Mailctl-Priority: High', 1],
		[' MT-PRIORITY=9', 'x-mailctl-priority: low', -1],
	] as const) {
		t.regex(await session.say(`MAIL FROM:<hello@example.com>${parameter}`), /^250 /);
		await session.say('RCPT TO:<ann@example.org>');
		const reply = await session.data(field === '' ? mail : `${field}\r\n${mail}`);
		const [, id = ''] = /Ok (msg_\w+)/.exec(reply) ?? [];
		const {id: recipient_id} = await store.reader('recipients').where({message_id: id}).first('id');
		t.is((await store.reader('queue').where({recipient_id}).first()).priority, level, `${parameter} ${field}`);
		const {content} = await store.reader('attachments').where({message_id: id}).first('content');
		t.notRegex(String(content), /x-mailctl-priority/i);
	}
	for (const wrong of ['10', '-10', '+1', 'x', '1.5']) {
		t.regex(await session.say(`MAIL FROM:<hello@example.com> MT-PRIORITY=${wrong}`), /^501 5\.5\.4 MT-PRIORITY/);
	}
});

sqliteTest(test, 'accepts a release time and an expiry time', async (t, store) => {
	const lab = await openLab(t, store);
	const stranger = await lab.talk();
	const [, seconds, furthest = ''] =
		/FUTURERELEASE (\d+) (\S+) 250 DELIVERBY 60$/.exec(await stranger.say('EHLO client.example')) ?? [];
	t.is(seconds, '2592000');
	const session = await loggedIn(lab);
	t.regex(await session.say('EHLO client.example'), / 250-FUTURERELEASE 2592000 \S+Z 250 DELIVERBY 60$/);
	const future = new Date(Date.now() + 86_400_000).toISOString().slice(0, 19);
	const submitted = async (parameters: string) => {
		t.regex(await session.say(`MAIL FROM:<hello@example.com> ${parameters}`), /^250 /, parameters);
		await session.say('RCPT TO:<ann@example.org>');
		const [, id = ''] = /Ok (msg_\w+)/.exec(await session.data(`X-Mailctl-Priority: low\r\n${mail}`)) ?? [];
		const {extras, created_at: created} = await store.reader('messages').where({id}).first('extras', 'created_at');
		const {id: recipient_id} = await store.reader('recipients').where({message_id: id}).first('id');
		const queued = await store.reader('queue').where({recipient_id}).first('send_at', 'next_attempt_at');
		const {sendAt, expiresAt, priority} = JSON.parse(extras);
		t.is(priority, 'low');
		t.is(queued.send_at, sendAt ?? null);
		// The time of the transaction, which may be later than that of the message.
		t.true(sendAt === undefined ? created <= queued.next_attempt_at : queued.next_attempt_at === sendAt);
		return {sendAt, expiresAt, created: Date.parse(created)};
	};

	t.is((await submitted(`HOLDUNTIL=${future}Z`)).sendAt, `${future}.000Z`);
	t.is((await submitted(`holduntil=${future}+00:00 SIZE=99`)).sendAt, `${future}.000Z`, 'a plus is no xtext');
	t.is(
		(await submitted(`HOLDUNTIL=${furthest}`)).sendAt,
		furthest.replace('Z', '.000Z'),
		'what EHLO offers is taken',
	);
	t.is((await submitted('HOLDUNTIL=2020-01-01T00:00:00Z')).sendAt, undefined, 'that time has come');
	const begun = Date.now();
	for (const by of ['BY=172800;R', 'BY=+172800;RT']) {
		const {sendAt, expiresAt, created} = await submitted(`MT-PRIORITY=9 HOLDFOR=86400 ${by}`);
		t.is(Date.parse(expiresAt) - Date.parse(sendAt), 86_400_000);
		const start = Date.parse(expiresAt) - 172_800_000;
		t.true(begun <= start && start <= created, 'both count from MAIL');
	}
	const {sendAt, expiresAt} = await submitted('BY=60;R');
	t.is(sendAt, undefined);
	t.true(Date.parse(expiresAt) >= begun + 60_000);

	const count = (await stored(store)).length;
	for (const [wrong, reply] of [
		['HOLDFOR=0', /^501 5\.5\.4 HOLDFOR must be 1 to 2592000 seconds$/],
		['HOLDFOR', /^501 5\.5\.4 HOLDFOR /],
		['HOLDFOR=2592001', /^501 5\.5\.4 HOLDFOR /],
		['HOLDUNTIL=2099-01-01T00:00:00Z', /^501 5\.5\.4 HOLDUNTIL /],
		[`HOLDUNTIL=${future}`, /^501 5\.5\.4 HOLDUNTIL /],
		['HOLDUNTIL=+2h', /^501 5\.5\.4 HOLDUNTIL /],
		[`HOLDFOR=60 HOLDUNTIL=${future}Z`, /^501 5\.5\.4 HOLDFOR and HOLDUNTIL cannot be combined/],
		['HOLDFOR=60 HOLDFOR=60', /^501 /],
		['BY=120', /^501 5\.5\.4 BY must/],
		['BY=0;R', /^501 5\.5\.4 BY must/],
		['BY=-5;R', /^501 5\.5\.4 BY must/],
		['BY=59;R', /^555 5\.5\.4 BY must leave 60 seconds/],
		['BY=120;N', /^555 5\.5\.4 BY is supported with mode R only/],
		['HOLDFOR=121 BY=120;R', /^501 5\.5\.4 BY ends before/],
		['HOLDFOR=61 BY=120;R', /^555 5\.5\.4 BY must leave/],
	] as const) {
		t.regex(await session.say(`MAIL FROM:<hello@example.com> ${wrong}`), reply, wrong);
	}
	await session.say('MAIL FROM:<hello@example.com>');
	await session.say('RCPT TO:<ann@example.org>');
	const [, id = ''] = /Ok (msg_\w+)/.exec(await session.data(mail)) ?? [];
	t.is((await store.reader('messages').where({id}).first('extras')).extras, null, 'nothing stays of a refused MAIL');
	t.is((await stored(store)).length, count + 1);
});

storeTest(
	test,
	'defers messages for a pause, a quota, a rate limit, a full disk or a failing store',
	async (t, store) => {
		await clearOfMidnight();
		let [hasRoom, mayAccept] = [false, true];
		const rateLimit = {requests: 3, windowMs: 86_400_000};
		const lab = await openLab(t, store, {hasRoom: () => hasRoom, mayAccept: () => mayAccept, rateLimit});
		const session = await loggedIn(lab);
		t.is(await submit(session, ['a@example.org']), '452 4.3.1 Too little space on the disk, try again later');
		[hasRoom, mayAccept] = [true, false];
		t.regex(await submit(session, ['a@example.org']), /^451 4\.3\.0 /);
		mayAccept = true;
		const workspaces = () => store.database('workspaces').where({id: lab.workspace.id});
		await workspaces().update({monthly_quota: 1});
		t.regex(await submit(session, ['a@example.org']), /^250 /);
		t.is(await submit(session, ['a@example.org']), '452 4.7.1 The monthly quota of the workspace is used up');
		t.regex(await submit(session, ['a@example.org', 'b@example.org']), /^451 4\.7\.1 Too many sends with this key/);
		t.is((await stored(store)).length, 1);
		t.deepEqual(lab.counted, ['no_disk', 'store', 1, 'quota', 'rate_limit']);
	},
);

sqliteTest(test, 'replies 451 to MAIL for a paused workspace', async (t, store) => {
	const lab = await openLab(t, store);
	await store.database('workspaces').update({paused_at: at});
	t.is(await submit(await loggedIn(lab), ['a@example.org']), '451 4.7.1 Sending is paused for this workspace');
});

sqliteTest(test, 'sends messages of a test key to the simulator', async (t, store) => {
	const lab = await openLab(t, store);
	const key = await addKey(store, lab.workspace.id, {mode: 'test'});
	t.regex(await submit(await loggedIn({...lab, key}), ['ann@example.org']), /^250 /);
	t.deepEqual(await store.reader('recipients').pluck('destination'), ['simulator.test']);
});

storeTest(test, 'rejects messages that are too large for one or for many recipients', async (t, store) => {
	const lab = await openLab(t, store);
	const session = await loggedIn(lab);
	const many = Array.from({length: 40}, (_, n) => `a${n}@example.org`);
	const line = `${'x'.repeat(98)}\r\n`;
	t.regex(await submit(session, many, mail + line.repeat(9000)), /^552 5\.3\.4 The message is too large for so many/);
	t.regex(await submit(session, ['a@example.org'], mail + line.repeat(110_000)), /^552 5\.3\.4 /);
	await session.say('MAIL FROM:<a@example.com>');
	for (let n = 0; n < 100; n++) {
		await session.say(`RCPT TO:<a${n}@example.org>`);
	}
	t.regex(await session.say('RCPT TO:<b@example.org>'), /^452 4\.5\.3 /);
	t.is((await stored(store)).length, 0);
});

test('accepts passwords only over TLS or loopback, and supports implicit TLS', async t => {
	const tls = makeCertificate('mail.test');
	const passwords: string[] = [];
	const listener = new SubmissionListener({
		hostname: 'mail.test',
		tls: {cert: Buffer.from(tls.cert), key: Buffer.from(tls.key)},
		submission: {
			async logIn(password: string) {
				passwords.push(password);
				return {ok: false, code: 535, text: '5.7.8 no', reason: 'key'};
			},
		} as Partial<Submission> as Submission,
		hasDisk: () => true,
		now: () => 0,
		observer: {
			submitted: () => undefined,
			submissionRefused: () => undefined,
			storeFailed: error => t.fail(String(error)),
		},
	});
	t.teardown(() => listener.close());
	const open = {host: '127.0.0.1', port: 0, isLoopback: false};
	const {port} = await listener.listen({...open, implicitTls: false});
	const talk = await talkTo(t, port);
	await talk.reply();
	t.notRegex(await talk.say('EHLO peer.test'), /AUTH/);
	t.regex(await talk.say(plain('secret')), /^538 /);
	t.regex(await talk.say('MAIL FROM:<>'), /^530 5\.7\.0 /);
	await talk.say('STARTTLS');
	await talk.secure({ca: tls.cert, servername: 'mail.test'});
	t.regex(await talk.say('EHLO peer.test'), /AUTH PLAIN LOGIN/);
	t.is(await talk.say(plain('secret')), '535 5.7.8 no');
	t.deepEqual(passwords, ['secret']);

	const implicit = await listener.listen({...open, implicitTls: true});
	const socket = connectTls({port: implicit.port, host: '127.0.0.1', ca: tls.cert, servername: 'mail.test'});
	t.teardown(() => socket.destroy());
	const [greeting] = await once(socket, 'data');
	t.is(String(greeting), '220 mail.test ESMTP mailctl submission\r\n');
});

test('before the first certificate refuses remote sessions, so that no key is sent unencrypted', async t => {
	const tls = makeCertificate('mail.test');
	const listener = new SubmissionListener({
		hostname: 'mail.test',
		tls: null,
		submission: {logIn: async () => t.fail()} as Partial<Submission> as Submission,
		hasDisk: () => true,
		now: () => 0,
		observer: {
			submitted: () => undefined,
			submissionRefused: () => undefined,
			storeFailed: error => t.fail(String(error)),
		},
	});
	t.teardown(() => listener.close());
	const at = {host: '127.0.0.1', port: 0, isLoopback: false};
	const {port} = await listener.listen({...at, implicitTls: false});
	const implicit = await listener.listen({...at, implicitTls: true});
	const early = await talkTo(t, port);
	t.is(await early.reply(), '421 4.7.0 No certificate yet, try again later');
	t.is(await early.say(plain('secret')).catch(() => 'closed'), 'closed');
	const shakes = () => {
		const socket = connectTls({port: implicit.port, host: '127.0.0.1', ca: tls.cert, servername: 'mail.test'});
		t.teardown(() => socket.destroy());
		return socket;
	};
	await t.throwsAsync(
		once(shakes(), 'secureConnect'),
		undefined,
		'the library has a certificate whose key is public',
	);
	listener.useTls({cert: Buffer.from(tls.cert), key: Buffer.from(tls.key)});
	const [greeting] = await once(shakes(), 'data');
	t.is(String(greeting), '220 mail.test ESMTP mailctl submission\r\n');
	const talk = await talkTo(t, port);
	await talk.reply();
	t.regex(await talk.say('EHLO peer.test'), /STARTTLS/);
	t.regex(await talk.say(plain('secret')), /^538 /);
});

test('unauthenticated connections cannot crowd out authenticated ones', async t => {
	const tls = makeCertificate('mail.test');
	const refused: string[] = [];
	const listener = new SubmissionListener({
		hostname: 'mail.test',
		tls: {cert: Buffer.from(tls.cert), key: Buffer.from(tls.key)},
		submission: {
			logIn: async () => ({ok: true, caller: {keyId: 'key_1'} as Caller}),
		} as Partial<Submission> as Submission,
		hasDisk: () => true,
		now: () => 0,
		observer: {
			submitted: () => undefined,
			submissionRefused: ({reason}) => refused.push(reason),
			storeFailed: error => t.fail(String(error)),
		},
		limits: {clients: 4, perClient: 3},
	});
	t.teardown(() => listener.close());
	const open = {host: '127.0.0.1', port: 0, isLoopback: true};
	const {port} = await listener.listen({...open, implicitTls: false});
	const greeted = async () => {
		const talk = await talkTo(t, port);
		t.regex(await talk.reply(), /^220 /);
		return talk;
	};
	const first = await greeted();
	const strangers = [await greeted(), await greeted()];
	await first.say('EHLO peer.test');
	t.regex(await first.say(plain('key')), /^235 /);
	for (const stranger of strangers) {
		const next = await greeted();
		t.is(await stranger.reply(), '421 4.7.0 Another session needs this slot, authenticate sooner');
		t.is(await stranger.reply(), 'closed');
		await next.say('EHLO peer.test');
		t.regex(await next.say(plain('key')), /^235 /);
	}
	t.is(
		await (await talkTo(t, port)).reply(),
		'421 mail.test has too many sessions from your address, try again later',
	);
	t.regex(await first.say('NOOP'), /^250 /);
	t.is(listener.sessions(), 3);
	t.deepEqual(refused, ['too_many_sessions', 'too_many_sessions', 'too_many_sessions']);

	const implicit = await listener.listen({...open, implicitTls: true});
	const silent = [];
	for (let n = 0; n < 6; n++) {
		silent.push(await talkTo(t, implicit.port));
	}
	t.is(await silent[0]?.reply(), 'closed', 'the oldest without a handshake makes room');
	t.false(silent[5]?.ended());
});
