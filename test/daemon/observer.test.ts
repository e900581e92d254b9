import test from 'ava';
import {createLog} from '../../src/daemon/log.ts';
import {createObserver} from '../../src/daemon/observer.ts';
import type {Attempt, AttemptResult, Outcome} from '../../src/mail/outcome.ts';
import type {StoredInbound} from '../../src/mail/report.ts';
import {InfrastructureAlarm} from '../../src/outcome/infrastructure-alarm.ts';
import type {JudgedAttempt} from '../../src/outcome/settle.ts';
import type {Site} from '../../src/queue/site.ts';
import type {FinishedAttempt} from '../../src/resources/webhooks/turn.ts';
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

/** An observer with a clock that the test controls, and the lines of its log. */
function start(level: 'debug' | 'info' = 'info') {
	const lines: string[] = [];
	const destination = {
		write(line: string) {
			lines.push(line);
		},
	};
	const {logger} = createLog({level, format: 'json', hasColors: false, destination});
	const time = {now: 0};
	const counted: AttemptResult[] = [];
	const observer = createObserver({
		metrics: {
			attempted: (result: AttemptResult) => counted.push(result),
			...{inboundMails: {inc}, reports: {inc}, kept: {inc}, submittedMails: {inc}},
			...{submittedMessages: {inc}, submissionRefusals: {inc}, webhookSeconds: {observe: inc}},
		} as never,
		logger,
		storeFailed(error) {
			throw error;
		},
		infrastructure: new InfrastructureAlarm({monotonic: () => time.now}),
		clock: {monotonic: () => time.now},
	});
	const records = (event: string) => lines.map(line => JSON.parse(line)).filter(line => line.event === event);
	return {observer, time, records, lines, counted};
}

/** A message accepted by the second relay. */
function relayed(...attempts: Attempt[]): JudgedAttempt {
	const outcome = {kind: 'relayed'} as const;
	return {
		...{recipient, rendered: null, crashes: 0},
		result: {recipientId: recipient.id, outcome, attempts: [...attempts, accepted], sentAt: at, at},
		verdict: {state: 'sent', attempts: 1, nextAttemptAt: null, outcome, event: null},
	};
}

/** An attempt with an outcome. */
function ended(outcome: Outcome, attempts: Attempt[]): JudgedAttempt {
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
	test(`logs an attempt that is ${outcome.kind} as one line, always with the same fields`, t => {
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

test('does not log a release, and logs the reason as the reply if there was no session', t => {
	const {observer, lines, records} = start();
	observer.recorded(ended({kind: 'released'}, []));
	observer.recorded(ended({kind: 'deferred', category: 'dns_temp', reason: 'SERVFAIL'}, []));
	t.is(lines.length, 1);
	t.like(records('deferred')[0], {reply: 'SERVFAIL', mx: null});
});

test('a reply cannot forge a log line', t => {
	const {observer, lines} = start();
	const reply = 'no\n{"level":"fatal","event":"delivered"}\r\u001b[2J';
	observer.recorded(ended({kind: 'delivered'}, [{...unknown, reply}]));
	t.is(lines.length, 1);
	t.is(lines[0]?.split('\n').length, 2);
});

test('logs a report with its recipient, contents and outcome', t => {
	const {observer, records} = start();
	const about = {isNew: true, messageId: 'msg_1', recipient: 'ann@shop.example', workspaceId: 'ws_1'};
	const report = {host: 'mx.example', code: 550, status: '5.1.1', reason: 'x'.repeat(2000), category: 'unknown_user'};
	observer.inboundRead(
		{id: '0123456789abcdef'.repeat(4), source: 'smtp'} as StoredInbound,
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

test('logs a relay’s refused login every ten minutes, even if the next relay accepts the message', t => {
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

test('logs and counts a refused login in any phase, even if the attempt does not count', t => {
	const {observer, records, counted} = start();
	const waits = ended({kind: 'released', reason: '530 5.7.0 Authentication required'}, []);
	const reply = '5.7.0 Authentication required';
	const unauthenticated: Attempt = {...refused, phase: 'mail', code: 530, reply, loginRefused: true};
	observer.recorded({...waits, result: {...waits.result, uncounted: [unauthenticated]}});
	t.like(records('log_in_refused'), {length: 1, 0: {host: 'first.example', code: 530}});
	t.regex(
		records('log_in_refused')[0]?.msg,
		/^530 5\.7\.0 Authentication required \(smarthost first\.example\)\. Add user and password to /,
	);
	t.is(counted[0]?.uncounted?.length, 1);
});

test('logs a stopped route with the relay’s reply first, then advice', t => {
	const {observer, records} = start();
	const reason = '554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org';
	const site = {name: 'smarthost user@relay.example:587', state: {backoff: {reason}}} as Site;
	observer.siteChanged(site, ['backed_off', 'route_stopped']);
	const [line] = records('route_stopped');
	t.like(line, {level: 'error', site: 'smarthost user@relay.example:587', reply: reason});
	t.true(
		line?.msg.startsWith(`${reason} (smarthost user@relay.example:587). The relay refuses the address of`),
		line?.msg,
	);
	t.regex(line?.msg, / Its mail is waiting; none is lost\.$/);
});

test('does not log a lost connection or another refusal as a refused login', t => {
	const {observer, records} = start();
	observer.recorded(relayed({...refused, code: null}, {...refused, phase: 'rcpt', code: 550}));
	t.is(records('log_in_refused').length, 0);
});

test('logs a missing route once a minute per workspace', t => {
	const {observer, time, records} = start();
	const error = new Error('A sealed secret in the store is damaged.');
	const queue = {destination: 'a.example', workspaceId: 'ws_1'};
	observer.routeNotFound(error, queue);
	observer.routeNotFound(error, {...queue, destination: 'b.example'});
	observer.routeNotFound(error, {...queue, workspaceId: 'ws_2'});
	t.like(records('route_not_found'), {
		length: 2,
		0: {level: 'error', workspace: 'ws_1', destination: 'a.example', message: error.message},
		1: {workspace: 'ws_2'},
	});
	time.now = 60_000;
	observer.routeNotFound(error, queue);
	t.is(records('route_not_found').length, 3);
});

test('logs an internal error with its recipient', t => {
	const {observer, records} = start();
	observer.faulted(new TypeError('broken'), recipient);
	t.like(records('recipient_failed'), {
		length: 1,
		0: {level: 'error', message_id: 'msg_1', recipient: 'ann@shop.example', err: {message: 'broken'}},
	});
});

test('logs once an hour that a provider refuses over 5% of messages because of this machine', t => {
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
	const bad: JudgedAttempt = {...one, result: {...one.result, outcome, attempts: [blocked]}};
	for (let n = 0; n < 20; n++) {
		observer.recorded(bad);
	}
	t.like(records('infrastructure_alarm'), {
		length: 1,
		0: {
			level: 'error',
			provider: 'outlook.example',
			attempts: 5,
			refused: 5,
			host,
			reply: 'on our block list (S3140)',
		},
	});
	t.false(Object.hasOwn(records('infrastructure_alarm')[0], 'workspace'), 'no workspace is blamed');
	time.now = 3_600_000;
	for (let n = 0; n < 5; n++) {
		observer.recorded(bad);
	}
	t.is(records('infrastructure_alarm').length, 2);
});

test('logs that a workspace was warned, paused or is back to normal', t => {
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

const slow = {reason: '421 4.7.0 low reputation', perMinute: 1};
const site = {name: 'mx.example', state: {backoff: {reason: '421 4.7.0 Try again later'}, slow}} as Parameters<
	ReturnType<typeof createObserver>['siteChanged']
>[0];

test('logs a suspension as a warning, a stopped route as an error and the end of both as info', t => {
	const {observer, lines} = start();
	for (const change of ['backed_off', 'resumed', 'slowed', 'route_stopped', 'route_resumed'] as const) {
		observer.siteChanged(site, [change]);
	}
	t.deepEqual(
		lines.map(line => JSON.parse(line)).map(({event, level}) => [event, level]),
		[
			['site_suspended', 'warn'],
			['site_resumed', 'info'],
			['site_slowed', 'warn'],
			['route_stopped', 'error'],
			['route_resumed', 'info'],
		],
	);
});

test('logs a domain that loses its records as a warning, and as an error once it can no longer send', t => {
	const {observer, records} = start();
	const domain = (state: string) => ({name: 'shop.example', workspace_id: 'ws_1', state, return_path_at: null});
	const check = (from: string, to: string) =>
		observer.domainChecked({before: domain(from), domain: domain(to), records: [], activated: []} as never);
	check('pending', 'verified');
	check('verified', 'degraded');
	check('degraded', 'failed');
	check('failed', 'verified');
	t.deepEqual(
		records('domain_state').map(({level}) => level),
		['info', 'warn', 'error', 'info'],
	);
});

/** The end of a post; `status` 200 acknowledges the event. */
function posted(status: number, after: Partial<FinishedAttempt['after']> = {}): FinishedAttempt {
	const delivery = {id: 'whd_1', endpointId: 'whe_1', url: 'https://app.example/secret', eventType: 'delivered'};
	const state = status === 200 ? 'delivered' : 'failed';
	return {
		delivery: {...delivery, messageId: 'msg_1', workspaceId: 'ws_1'},
		end: {
			status,
			error: status === 200 ? null : `the server responded with ${status}`,
			detail: null,
			answer: null,
			ms: 5,
		},
		after: {state, attempts: 1, nextAttemptAt: null, ...after},
	} as never;
}

test('logs webhook attempts as debug, and an exhausted delivery as a warning until the endpoint recovers', t => {
	const {observer, lines} = start('debug');
	const said = () => lines.splice(0).map(line => [JSON.parse(line).event, JSON.parse(line).level].join(' '));
	observer.posted(posted(200));
	observer.posted(posted(500));
	t.deepEqual(said(), ['webhook_attempted debug', 'webhook_attempted debug']);
	observer.posted(posted(500, {state: 'exhausted', attempts: 5}));
	observer.posted(posted(500, {state: 'exhausted', attempts: 5}));
	t.deepEqual(
		said().filter(line => !line.startsWith('webhook_attempted')),
		['webhook_exhausted warn'],
	);
	observer.posted(posted(200));
	observer.posted(posted(200));
	t.deepEqual(
		said().filter(line => !line.startsWith('webhook_attempted')),
		['webhook_recovered info'],
	);
	observer.posted(posted(410, {state: 'exhausted', disables: 'gone'}));
	t.deepEqual(
		said().filter(line => !line.startsWith('webhook_attempted')),
		['webhook_disabled error'],
	);
});

test('at level info, a message that is submitted, delivered and posted to its endpoint is one line', t => {
	const {observer, lines} = start();
	const mail = {leftFor: [], ids: ['msg_1'], left: [], client: '192.0.2.1', key: 'key_1', size: 1, tls: null};
	observer.submitted(mail as never);
	observer.recorded(ended({kind: 'delivered'}, [accepted]));
	observer.posted(posted(500));
	observer.posted(posted(200));
	t.deepEqual(
		lines.map(line => JSON.parse(line).event),
		['delivered'],
	);
	observer.submitted({...mail, left: ['ben@shop.example'], leftFor: ['suppressed']} as never);
	t.is(JSON.parse(lines[1] ?? '').level, 'warn', 'somebody was left out');
});
