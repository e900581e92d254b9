import {spawn} from 'node:child_process';
import {once} from 'node:events';
import {text} from 'node:stream/consumers';
import {pathToFileURL} from 'node:url';
import test from 'ava';
import fc from 'fast-check';
import {createLog} from '../../src/log/log.ts';
import {createMailLog} from '../../src/log/maillog.ts';
import {prettyLine} from '../../src/log/pretty.ts';
import type {AttemptResult, Outcome} from '../../src/mail/outcome.ts';

function capture(input: Partial<Parameters<typeof createLog>[0]> = {}) {
	const lines: string[] = [];
	const destination = {
		write(line: string) {
			lines.push(line);
		},
	};
	const log = createLog({level: 'info', format: 'json', colour: false, destination, ...input});
	return {...log, lines, records: () => lines.map(line => JSON.parse(line))};
}

const recipient = {messageId: 'msg_1', recipient: 'ann@shop.example', workspace: 'ws_1'};
const fields = 'level,time,event,message_id,recipient,workspace,mx,code,enhanced,reply,delay_ms,attempt,tls';

test('the mail log has one line per event, always with the same fields', t => {
	const {logger, records} = capture();
	const log = createMailLog(logger);
	log.accepted(recipient);
	for (const event of ['sent', 'delivered', 'deferred', 'bounced', 'errored', 'suppressed'] as const) {
		log[event](recipient, {mx: 'mx.example', code: 250, reply: 'ok', delayMs: 7, attempt: 1, tls: null});
		log[event](recipient);
	}
	t.deepEqual(new Set(records().map(record => Object.keys(record).join())), new Set([fields]));
	t.like(records()[0], {event: 'accepted', message_id: 'msg_1', recipient: 'ann@shop.example', mx: null});
	t.like(records()[1], {event: 'sent', mx: 'mx.example', code: 250, reply: 'ok', delay_ms: 7, attempt: 1});
});

test('a report: whom it is about, what it says and what came of it', t => {
	const {logger, records} = capture();
	const log = createMailLog(logger);
	const said = {mx: 'mx.example', code: 550, enhanced: '5.1.1', reply: 'x'.repeat(2000), category: 'unknown_user'};
	log.reported(recipient, {...said, event: 'bounced', action: 'failed', inbound: '0123456789abcdef'});
	log.reported(recipient, {event: null, action: 'delayed', inbound: '0123456789abcdef', category: null});
	const [bounced, delayed] = records();
	t.like(bounced, {event: 'bounced', recipient: 'ann@shop.example', mx: 'mx.example', category: 'unknown_user'});
	t.is(String(bounced?.reply).length, 1024);
	t.like(delayed, {event: 'reported', action: 'delayed', mx: null, code: null, reply: null});
});

test('nothing but the listed fields gets through', t => {
	const {logger, lines} = capture();
	const log = createMailLog(logger);
	const extra = {...recipient, data: {secret: 'hunter2'}, authorization: 'Bearer hunter2', html: 'hunter2'};
	log.accepted(extra);
	log.delivered(extra, {mx: 'mx.example', ...extra});
	log.listening({http: 'h', admin: 'a', inbound: null, submission: null, version: '1', ...extra});
	t.is(lines.length, 3);
	t.notRegex(lines.join(), /hunter2/);
});

const attempt = {
	at: '2026-06-09T10:15:30.123Z',
	host: 'mx.example',
	ip: '192.0.2.1',
	tls: 'TLSv1.3',
	phase: 'rcpt',
	code: 550,
	enhanced: '5.1.1',
	reply: 'No such user',
	ms: 5,
	dialogue: null,
} as const;
const outcomes: Array<[Outcome, Record<string, unknown>]> = [
	[{kind: 'delivered'}, {event: 'delivered', reply: 'No such user', attempt: 2, delay_ms: 9}],
	[{kind: 'relayed'}, {event: 'sent', mx: 'mx.example', tls: 'TLSv1.3'}],
	[
		{kind: 'deferred', category: 'network', reason: 'x'},
		{event: 'deferred', code: 550, enhanced: '5.1.1'},
	],
	[
		{kind: 'bounced', type: 'permanent', category: 'unknown_user', reason: 'x', suppresses: true},
		{event: 'bounced', reply: 'No such user'},
	],
	[
		{kind: 'errored', reason: 'render_limit', message: 'hunter2'},
		{event: 'errored', reply: 'render_limit'},
	],
	[{kind: 'suppressed', reason: 'manual'}, {event: 'suppressed'}],
];
for (const [outcome, expected] of outcomes) {
	test(`an attempt that came to ${outcome.kind}`, t => {
		const {logger, records} = capture();
		const result: AttemptResult = {recipientId: 'rcp_1', outcome, attempts: [attempt], sentAt: null, at: attempt.at};
		createMailLog(logger).attempted(recipient, result, {attempt: 2, delayMs: 9});
		t.like(records()[0], expected);
		t.notRegex(JSON.stringify(records()), /hunter2/);
	});
}

test('a release is no event; without a conversation the reason stands for the reply', t => {
	const {logger, records} = capture();
	const result = {recipientId: 'rcp_1', attempts: [], sentAt: null, at: attempt.at};
	createMailLog(logger).attempted(recipient, {...result, outcome: {kind: 'released'}}, {});
	const deferred: Outcome = {kind: 'deferred', category: 'dns_temp', reason: 'SERVFAIL'};
	createMailLog(logger).attempted(recipient, {...result, outcome: deferred}, {});
	t.is(records().length, 1);
	t.like(records()[0], {event: 'deferred', reply: 'SERVFAIL', mx: null});
});

test('a reply cannot forge a line', t => {
	const {logger, lines} = capture();
	createMailLog(logger).bounced(recipient, {reply: 'no\n{"level":"fatal","event":"delivered"}\r\u001b[2J'});
	t.is(lines.length, 1);
	t.is(lines[0]?.split('\n').length, 2);
});

test('the level changes while running', t => {
	const {logger, setLevel, records} = capture({level: 'warn'});
	logger.info('one');
	setLevel('debug');
	logger.debug('two');
	t.deepEqual(
		records().map(record => [record.level, record.msg]),
		[['debug', 'two']],
	);
});

test('an error is logged by name, message, code and stack, nothing that hangs on it', t => {
	const {logger, records} = capture();
	const cause = Object.assign(new Error('inner'), {password: 'hunter2'});
	logger.error({err: Object.assign(new Error('outer', {cause}), {code: 'EIO', sql: 'hunter2'})}, 'failed');
	logger.error({err: 'text'}, 'failed');
	t.like(records()[0], {err: {type: 'Error', message: 'outer', code: 'EIO', cause: {message: 'inner'}}});
	t.like(records()[1], {err: {message: 'text'}});
	t.notRegex(JSON.stringify(records()), /hunter2/);
});

test('pretty lines: aligned, without colour off a terminal, with it on one', t => {
	const line =
		'{"level":"info","time":"2026-06-09T10:15:30.123Z","event":"sent","recipient":"a@b.example","mx":null,"code":250}';
	t.is(prettyLine(line, false), '10:15:30.123 INFO  sent       a@b.example code=250\n');
	t.is(
		prettyLine(line, true).replaceAll('\u001b', '^'),
		'^[90m10:15:30.123^[0m ^[32mINFO ^[0m ^[1msent      ^[0m a@b.example ^[90mcode=^[0m250\n',
	);
	t.is(
		prettyLine(
			'{"level":"error","time":"2026-06-09T10:15:30.123Z","msg":"failed","err":{"stack":"E: x\\n  at y"}}',
			false,
		),
		'10:15:30.123 ERROR failed\n    E: x\n    at y\n',
	);
	const {logger, lines} = capture({format: 'pretty'});
	logger.warn({event: 'x'}, 'careful');
	t.regex(lines.join(), /^[\d:.]+ WARN {2}x {10}careful\n$/);
});

test('pretty lines never let a control or a bidi override through, whatever comes', t => {
	const {logger, lines} = capture({format: 'pretty'});
	fc.assert(
		fc.property(fc.string({unit: 'binary'}), fc.anything(), (text, anything) => {
			const before = lines.length;
			logger.info({event: text, reply: `\u001b[2J\u202e${text}`, [text]: anything}, text);
			t.is(lines.length, before + 1);
			t.notRegex(lines[before]?.slice(0, -1) ?? '', /[\u0000-\u001f\u007f-\u009f\u202a-\u202e]/);
			t.is(typeof prettyLine(text, true), 'string');
		}),
	);
});

test('standard output gets every line, also when the process exits at once', async t => {
	const module = pathToFileURL('dist/src/log/log.js');
	const script = `const {createLog} = await import('${module}');
		const {logger} = createLog({level: 'info', format: 'json', colour: false});
		for (let n = 0; n < 5000; n++) logger.info({n});
		process.exit(0);`;
	const child = spawn(process.execPath, ['--input-type=module', '-e', script], {stdio: ['ignore', 'pipe', 'inherit']});
	const chunks: Buffer[] = [];
	child.stdout.on('data', chunk => chunks.push(chunk));
	await once(child, 'close');
	const lines = Buffer.concat(chunks).toString().trim().split('\n');
	t.is(lines.length, 5000);
	t.is(JSON.parse(lines.at(-1) ?? '').n, 4999);
});

test('a pipe that nobody reads costs 16 MiB at most; what is dropped is counted, and the end is not held up', async t => {
	const module = pathToFileURL('dist/src/log/log.js');
	const script = `const {createLog} = await import('${module}');
		const {logger, dropped} = createLog({level: 'info', format: 'json', colour: false});
		const text = 'x'.repeat(1000);
		for (let n = 0; n < 30000; n++) logger.info({n, text});
		await new Promise(resolve => setTimeout(resolve, 100));
		process.stderr.write(String(dropped()));
		process.exit(0);`;
	const child = spawn(process.execPath, ['--input-type=module', '-e', script], {stdio: ['ignore', 'pipe', 'pipe']});
	child.stdout.pause();
	const dropped = Number(await text(child.stderr));
	// 16 MiB are some 15,500 of these lines.
	t.true(dropped > 13_000 && dropped < 15_500, String(dropped));
	t.is(child.exitCode ?? (await once(child, 'exit'))[0], 0);
});

test('where the reader is gone, lines are counted and nothing is thrown', async t => {
	const script = `const {createLog} = await import('${pathToFileURL('dist/src/log/log.js')}');
		const {logger, dropped} = createLog({level: 'info', format: 'json', colour: false});
		await new Promise(resolve => process.stdin.once('data', resolve));
		process.stdin.destroy();
		for (let n = 0; n < 100; n++) logger.info({n});
		await new Promise(resolve => setTimeout(resolve, 100));
		process.stderr.write(String(dropped()));`;
	const child = spawn(process.execPath, ['--input-type=module', '-e', script], {stdio: ['pipe', 'pipe', 'pipe']});
	child.stdout.destroy();
	child.stdin.end('go');
	t.is(await text(child.stderr), '100');
});

test('a line is never torn by a slow reader', async t => {
	const script = `const {createLog} = await import('${pathToFileURL('dist/src/log/log.js')}');
		const {logger} = createLog({level: 'info', format: 'json', colour: false});
		for (let n = 0; n < 2000; n++) {
			logger.info({n, text: 'ä'.repeat(n)});
			if (n % 100 === 0) await new Promise(resolve => setTimeout(resolve, 1));
		}`;
	const child = spawn(process.execPath, ['--input-type=module', '-e', script], {stdio: ['ignore', 'pipe', 'inherit']});
	const lines = (await text(child.stdout)).trim().split('\n');
	t.deepEqual(
		lines.map(line => JSON.parse(line).n),
		Array.from({length: 2000}, (_, n) => n),
	);
});
