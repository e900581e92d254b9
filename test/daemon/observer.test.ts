import test from 'ava';
import {createObserver} from '../../src/daemon/observer.ts';
import {createLog} from '../../src/log/log.ts';
import type {Attempt, Outcome} from '../../src/mail/outcome.ts';
import type {CameIn} from '../../src/mail/report.ts';
import type {JudgedTry} from '../../src/outcome/settle.ts';
import {InfrastructureAlarm} from '../../src/reputation/alarm.ts';
import type {Claimed} from '../../src/store/queue/claims.ts';

const at = '2026-06-09T10:15:30.123Z';
const recipient = {
	...{id: 'rcp_1', message_id: 'msg_1', address: 'ann@shop.example', workspace_id: 'ws_1'},
	...{created_at: at, attempts: 0},
} as Claimed;
const accepted: Attempt = {
	...{at, host: 'second.example', ip: '192.0.2.2', tls: null, ms: 5, dialogue: null},
	...{phase: 'dot', code: 250, enhanced: null, reply: 'ok'},
};
const refused: Attempt = {...accepted, host: 'first.example', phase: 'auth', code: 535, reply: 'who?'};

const inc = () => undefined;

/** An observer whose time the test moves, and what is in its log. */
function start() {
	const lines: string[] = [];
	const destination = {
		write(line: string) {
			lines.push(line);
		},
	};
	const {logger} = createLog({level: 'info', format: 'json', colour: false, destination});
	const time = {now: 0};
	const observer = createObserver({
		metrics: {attempted: () => undefined, inboundMails: {inc}, reports: {inc}, kept: {inc}} as never,
		logger,
		storeFailed(error) {
			throw error;
		},
		infrastructure: new InfrastructureAlarm({monotonic: () => time.now}),
		clock: {monotonic: () => time.now},
	});
	const records = (event: string) => lines.map(line => JSON.parse(line)).filter(line => line.event === event);
	return {observer, time, records, lines};
}

/** A mail that the second smarthost took. */
function relayed(...attempts: Attempt[]): JudgedTry {
	const outcome = {kind: 'relayed'} as const;
	return {
		...{recipient, made: null, crashes: 0},
		result: {recipientId: recipient.id, outcome, attempts: [...attempts, accepted], sentAt: at, at},
		verdict: {state: 'sent', attempts: 1, nextAttemptAt: null, outcome, event: null},
	};
}

/** A try that came to an outcome. */
function ended(outcome: Outcome, attempts: Attempt[]): JudgedTry {
	const judged = relayed();
	const verdict = {...judged.verdict, attempts: 2, outcome};
	return {...judged, result: {...judged.result, outcome, attempts}, verdict};
}

const unknown: Attempt = {...refused, phase: 'rcpt', tls: 'TLSv1.3', enhanced: '5.1.1', reply: 'No such user'};
const outcomes: Array<[Outcome, Record<string, unknown>]> = [
	[{kind: 'delivered'}, {event: 'delivered', reply: 'No such user', attempt: 2, delay_ms: 0}],
	[{kind: 'relayed'}, {event: 'sent', mx: 'first.example', tls: 'TLSv1.3'}],
	[
		{kind: 'deferred', category: 'network', reason: 'x'},
		{event: 'deferred', code: 535, enhanced: '5.1.1'},
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
const fields = 'level,time,event,message_id,recipient,workspace,mx,code,enhanced,reply,delay_ms,attempt,tls';
for (const [outcome, expected] of outcomes) {
	test(`an attempt that came to ${outcome.kind} is one line, always with the same fields, and nothing else`, t => {
		const {observer, lines} = start();
		const secret = {data: {secret: 'hunter2'}, authorization: 'Bearer hunter2', html: 'hunter2'};
		observer.recorded(ended(outcome, [{...unknown, ...secret}]));
		observer.recorded({...ended(outcome, []), recipient: {...recipient, ...secret}});
		const records = lines.map(line => JSON.parse(line));
		t.like(records[0], expected);
		t.like(records[1], {message_id: 'msg_1', recipient: 'ann@shop.example', workspace: 'ws_1', mx: null});
		t.deepEqual(
			records.map(record => Object.keys(record).join()),
			[fields, fields],
		);
		t.notRegex(lines.join(), /hunter2/);
	});
}

test('a release is no event; without a conversation the reason stands for the reply', t => {
	const {observer, lines, records} = start();
	observer.recorded(ended({kind: 'released'}, []));
	observer.recorded(ended({kind: 'deferred', category: 'dns_temp', reason: 'SERVFAIL'}, []));
	t.is(lines.length, 1);
	t.like(records('deferred')[0], {reply: 'SERVFAIL', mx: null});
});

test('a reply cannot forge a line', t => {
	const {observer, lines} = start();
	const reply = 'no\n{"level":"fatal","event":"delivered"}\r\u001b[2J';
	observer.recorded(ended({kind: 'delivered'}, [{...unknown, reply}]));
	t.is(lines.length, 1);
	t.is(lines[0]?.split('\n').length, 2);
});

test('a report: whom it is about, what it says and what came of it', t => {
	const {observer, records} = start();
	const about = {isNew: true, messageId: 'msg_1', recipient: 'ann@shop.example', workspaceId: 'ws_1'};
	const report = {host: 'mx.example', code: 550, status: '5.1.1', reason: 'x'.repeat(2000), category: 'unknown_user'};
	observer.inboundRead(
		{id: '0123456789abcdef'.repeat(4), source: 'smtp'} as CameIn,
		{kind: 'dsn', reports: [], fault: null} as never,
		{
			about: [
				{...about, action: 'failed', event: 'bounced', report},
				{...about, action: 'delayed', event: null, report: null},
			],
			kept: null,
		} as never,
	);
	const [bounced] = records('bounced');
	t.like(bounced, {recipient: 'ann@shop.example', mx: 'mx.example', category: 'unknown_user'});
	t.is(String(bounced?.reply).length, 1024);
	t.like(records('reported')[0], {action: 'delayed', mx: null, code: null, reply: null});
});

test('a smarthost that refuses our log-in is told, once in ten minutes, though the next one takes the mail', t => {
	const {observer, time, records} = start();
	observer.recorded(relayed(refused));
	observer.recorded(relayed(refused));
	const unsafe = {...refused, host: 'other.example', code: null, enhanced: '5.7.4', reply: 'not over plain text'};
	observer.recorded(relayed(unsafe));
	t.like(records('log_in_refused'), {
		length: 2,
		0: {level: 'error', host: 'first.example', reply: 'who?'},
		1: {level: 'error', host: 'other.example', reply: 'not over plain text'},
	});
	time.now = 10 * 60_000;
	observer.recorded(relayed(refused));
	t.is(records('log_in_refused').length, 3);
	t.is(records('sent').length, 4);
});

test('a connection that is lost, and any other refusal, is no refused log-in', t => {
	const {observer, records} = start();
	observer.recorded(relayed({...refused, code: null}, {...refused, phase: 'rcpt', code: 550}));
	t.is(records('log_in_refused').length, 0);
});

test('a way that is not found is told once a minute for each workspace', t => {
	const {observer, time, records} = start();
	const error = new Error('A sealed secret in the store is damaged.');
	const queue = {destination: 'a.example', workspaceId: 'ws_1'};
	observer.routeNotFound(error, queue);
	observer.routeNotFound(error, {...queue, destination: 'b.example'});
	observer.routeNotFound(error, {...queue, workspaceId: 'ws_2'});
	t.like(records('way_not_found'), {
		length: 2,
		0: {level: 'error', workspace: 'ws_1', destination: 'a.example', message: error.message},
		1: {workspace: 'ws_2'},
	});
	time.now = 60_000;
	observer.routeNotFound(error, queue);
	t.is(records('way_not_found').length, 3);
});

test('a fault of ours names the copy', t => {
	const {observer, records} = start();
	observer.faulted(new TypeError('broken'), recipient);
	t.like(records('copy_fault'), {
		length: 1,
		0: {level: 'error', message_id: 'msg_1', recipient: 'ann@shop.example', err: {message: 'broken'}},
	});
});

test('a provider that refuses more than one mail in twenty because of us is told of once an hour', t => {
	const {observer, time, records} = start();
	const host = 'mx1.mail.outlook.example';
	const blocked = {
		...refused,
		phase: 'mail',
		host,
		code: 550,
		enhanced: '5.7.1',
		reply: 'on our block list (S3140)',
	} as const;
	const outcome = {kind: 'deferred', category: 'block', reason: blocked.reply} as const;
	const one = relayed();
	const bad: JudgedTry = {...one, result: {...one.result, outcome, attempts: [blocked]}};
	for (let n = 0; n < 20; n++) {
		observer.recorded(bad);
	}
	t.like(records('infrastructure_alarm'), {
		length: 1,
		0: {level: 'error', provider: 'outlook.example', attempts: 5, refused: 5, host, reply: 'on our block list (S3140)'},
	});
	t.false(Object.hasOwn(records('infrastructure_alarm')[0], 'workspace'), 'no workspace is blamed');
	time.now = 3_600_000;
	for (let n = 0; n < 5; n++) {
		observer.recorded(bad);
	}
	t.is(records('infrastructure_alarm').length, 2);
});

test('what became of a workspace by its figures is told', t => {
	const {observer, records} = start();
	const finding = {kind: 'bounces', span: 'day', n: 30, of: 200, share: 0.15} as const;
	const about = {workspaceId: 'ws_1', name: 'acme'};
	observer.judged({...about, kind: 'warned', findings: [{...finding, level: 'warn', limit: 0.05}]});
	observer.judged({...about, kind: 'paused', findings: [{...finding, level: 'pause', limit: 0.1}]});
	observer.judged({...about, kind: 'calm', findings: []});
	const figures = '30 of 200 bounced in 24 hours (15%, limit 10%)';
	t.like(records('workspace_paused'), {length: 1, 0: {level: 'error', workspace: 'ws_1', figures}});
	t.like(records('workspace_warned'), {length: 1, 0: {level: 'warn', workspace: 'ws_1'}});
	t.like(records('workspace_calm'), {length: 1, 0: {level: 'info', figures: ''}});
});
