import {readFileSync} from 'node:fs';
import test from 'ava';
import {Metrics} from '../../src/daemon/metrics.ts';
import type {Attempt, AttemptResult} from '../../src/mail/outcome.ts';
import type {Blocklisting} from '../../src/store/blocklists.ts';
import type {QueueSize} from '../../src/store/queue/queue-summary.ts';
import type {PaceFigures} from '../../src/store/queue/sites.ts';
import type {ReputationStatus} from '../../src/store/reputation.ts';

const attempt: Attempt = {
	at: '2026-06-09T10:15:30.123Z',
	host: 'mx.example',
	ip: '192.0.2.1',
	tls: null,
	phase: 'rcpt',
	code: 550,
	enhanced: null,
	reply: 'no',
	ms: 1,
	dialogue: null,
};
const result = (outcome: AttemptResult['outcome'], attempts: Attempt[]): AttemptResult => ({
	recipientId: 'rcp_1',
	outcome,
	attempts,
	sentAt: null,
	at: attempt.at,
});

test('exports counters and gauges of the daemon’s activity', async t => {
	let size: Promise<QueueSize> = Promise.resolve({
		...{ready: 3, deferred: 2, inFlight: 1, held: 5},
		byPriority: {high: 1, normal: 2, low: 0},
	});
	let pace: Promise<PaceFigures> = Promise.resolve({
		suspended: {operator: 1, failures: 2, route: 3},
		queues: [{waitsFor: 'pace', n: 7}],
		warmUp: [{source: '192.0.2.1', provider: 'google', n: 50}],
	});
	const sites = Array.from({length: 30}, (_, n) => ({site: `mx${n}.test`, connections: n + 1, inFlight: n}));
	const day = {attempted: 100, hard: 6, delivered: 90, complained: 1};
	const status = {name: 'x', pausedAt: null, since: null, warnedAt: null, windows: {day, week: day}};
	let statuses: Promise<ReputationStatus[]> = Promise.resolve([
		...Array.from({length: 120}, (_, n) => ({...status, id: `ws_${n}`})),
		{...status, id: 'ws_warned', warnedAt: '2026-06-09T10:00:00.000Z'},
		{...status, id: 'ws_paused', pausedAt: '2026-06-09T10:00:00.000Z'},
	]);
	const listing = {name: 'A List', delist: '', answer: null, reason: null, since: '', checked_at: null, asked_at: ''};
	const blocklistings: Blocklisting[] = [
		...Array.from({length: 600}, (_, n) => ({
			...listing,
			source: `${n}.test`,
			zone: 'list.test',
			state: 'clear' as const,
		})),
		{...listing, source: '192.0.2.1', zone: 'list.test', state: 'listed'},
		{...listing, source: '192.0.2.1', zone: 'other.test', state: 'refused'},
		{...listing, source: '192.0.2.1', zone: 'mute.test', state: 'unknown'},
	];
	const certificate = {
		...{chain: null, secret: null, not_before: null, not_after: null, issuer: null, window_start: null},
		...{window_end: null, next_try_at: '', taken_until: null, tries: 0, fault: null, wanted_at: null},
		...{unused: null, updated_at: '', directory: null, tried_directory: null},
	};
	const metrics = new Metrics({
		skew: () => 2500,
		version: '1.2.3',
		queueSize: () => size,
		pace: () => pace,
		sites: () => sites,
		webhooksPending: async () => 4,
		domainStates: async () => ({verified: 2, failed: 0}),
		blocklistings: async () => blocklistings,
		certificates: async () => [
			{...certificate, name: 'mail.test', not_after: '2026-06-09T10:00:00.000Z'},
			{...certificate, name: 'new.test'},
			{...certificate, name: 'gone.test', not_after: '2026-06-09T10:00:00.000Z', unused: 'it leads elsewhere'},
		],
		unread: async () => 5,
		inboundSessions: () => 3,
		mailbox: () => ({up: true, taken: 7, known: 1, skipped: 3, failures: 2}),
		submissionSessions: () => 6,
		statuses: () => statuses,
		refusals: () => [{provider: 'outlook.com', attempts: 40, refused: 10, host: 'mx.test', reply: '550 no'}],
		logDropped: () => 3,
		freeDisk: () => 1024,
		walBytes: () => 4_194_304,
	});
	metrics.inboundMails.inc({source: 'smtp', kind: 'dsn'});
	metrics.inboundMails.inc({source: 'smtp', kind: 'dsn'});
	metrics.inboundRefusals.inc({reason: 'foreign'});
	metrics.reports.inc({kind: 'dsn', action: 'failed', event: 'bounced'});
	metrics.reports.inc({kind: 'auto_reply', action: 'none', event: 'none'});
	metrics.inboundRetained.inc({kept: 'unmatched'});
	metrics.submittedMails.inc(2);
	metrics.submittedMessages.inc(3);
	metrics.submissionRefusals.inc({reason: 'suppressed'});
	metrics.accepted.inc({mode: 'live'}, 5);
	metrics.accepted.inc({mode: 'test'}, 1);
	metrics.attempted(
		result({kind: 'delivered'}, [
			{...attempt, code: null, phase: 'connect'},
			{...attempt, code: 535, phase: 'auth'},
			{...attempt, code: null, phase: 'auth'},
			{...attempt, code: 250},
		]),
		700,
		40,
	);
	metrics.attempted(result({kind: 'deferred', category: 'rate', reason: 'x'}, [{...attempt, code: 451}]), 700, null);
	metrics.httpSeconds.observe({method: 'POST', route: '/v1/messages', status: 202}, 0.004);
	const text = await metrics.text();
	for (const file of ['alerts.yml', 'grafana.json']) {
		const names = readFileSync(`config/monitoring/${file}`, 'utf8').match(/\bmailctl_\w+/g) ?? [];
		const unknown = names.filter(name => !text.includes(`# TYPE ${name.replace(/_(bucket|count)$/, '')} `));
		t.true(names.length > 10);
		t.deepEqual(unknown, [], `${file} has figures that are not there`);
	}
	for (const line of [
		'mailctl_messages_accepted_total{mode="live"} 5',
		'mailctl_inbound_unread 5',
		'mailctl_inbound_sessions 3',
		'mailctl_submission_sessions 6',
		'mailctl_submission_mails_total 2',
		'mailctl_submission_messages_total 3',
		'mailctl_submission_refused_total{reason="suppressed"} 1',
		'mailctl_mailbox_up 1',
		'mailctl_mailbox_mails_total{result="new"} 7',
		'mailctl_mailbox_mails_total{result="known"} 1',
		'mailctl_mailbox_mails_total{result="skipped"} 3',
		'mailctl_mailbox_failures_total 2',
		'mailctl_inbound_mails_total{source="smtp",kind="dsn"} 2',
		'mailctl_inbound_refused_total{reason="foreign"} 1',
		'mailctl_reports_total{kind="dsn",action="failed",event="bounced"} 1',
		'mailctl_reports_total{kind="auto_reply",action="none",event="none"} 1',
		'mailctl_inbound_kept_total{kept="unmatched"} 1',
		'mailctl_domains{state="verified"} 2',
		'mailctl_domains{state="failed"} 0',
		'mailctl_certificate_expires_seconds{name="mail.test"} 1780999200',
		'mailctl_blocklisted{source="192.0.2.1",zone="list.test"} 1',
		'mailctl_blocklisted{source="0.test",zone="list.test"} 0',
		'mailctl_messages_accepted_total{mode="test"} 1',
		'mailctl_outcomes_total{kind="delivered"} 1',
		'mailctl_outcomes_total{kind="deferred"} 1',
		'mailctl_send_attempts_total{phase="connect",reply="none"} 1',
		'mailctl_send_attempts_total{phase="rcpt",reply="2xx"} 1',
		'mailctl_send_attempts_total{phase="rcpt",reply="4xx"} 1',
		'mailctl_delivery_duration_seconds_bucket{le="1"} 1',
		'mailctl_log_in_refusals_total 1',
		'mailctl_delivery_duration_seconds_count 1',
		'mailctl_http_request_duration_seconds_count{method="POST",route="/v1/messages",status="202"} 1',
		'mailctl_queue_size{state="ready"} 3',
		'mailctl_queue_size{state="deferred"} 2',
		'mailctl_queue_size{state="in_flight"} 1',
		'mailctl_queue_size{state="held"} 5',
		'mailctl_queue_ready{priority="high"} 1',
		'mailctl_queue_ready{priority="normal"} 2',
		'mailctl_queue_ready{priority="low"} 0',
		'mailctl_suspended{by="operator"} 1',
		'mailctl_suspended{by="failures"} 2',
		'mailctl_suspended{by="route"} 3',
		'mailctl_queue_lanes_waiting{waits_for="pace"} 7',
		'mailctl_warm_up_sent_today{source="192.0.2.1",provider="google"} 50',
		'mailctl_site_in_flight{site="mx29.test"} 29',
		'mailctl_site_connections{site="mx29.test"} 30',
		'mailctl_refusals_total{kind="deferred",category="rate"} 1',
		'mailctl_queue_wait_seconds_bucket{le="0.05"} 1',
		'mailctl_queue_wait_seconds_count 1',
		'mailctl_reputation_copies{workspace="ws_paused",window="week",what="hard"} 6',
		'mailctl_reputation_copies{workspace="ws_warned",window="day",what="delivered"} 90',
		'mailctl_workspace_trouble{workspace="ws_paused",state="paused"} 1',
		'mailctl_workspace_trouble{workspace="ws_warned",state="warned"} 1',
		'mailctl_infrastructure_refused_ratio{provider="outlook.com"} 0.25',
		`mailctl_build_info{version="1.2.3",node="${process.version}"} 1`,
	]) {
		t.true(text.split('\n').includes(line), line);
	}

	t.regex(text, /^mailctl_nodejs_eventloop_lag_p99_seconds /m);

	t.is(text.match(/^mailctl_site_in_flight\{/gm)?.length, 10, 'the busiest, however many there are');
	t.is(text.match(/^mailctl_reputation_copies\{/gm)?.length, 800, 'a hundred workspaces, the worst first');
	t.is(text.match(/^mailctl_workspace_trouble\{/gm)?.length, 2);
	t.is(text.match(/^mailctl_certificate_expires_seconds\{/gm)?.length, 1, 'what is used and there');
	t.is(text.match(/^mailctl_blocklisted\{/gm)?.length, 500, 'what is listed comes first');
	t.notRegex(text, /other\.test|mute\.test/, 'what is not known is absent');

	pace = Promise.reject(new Error('the store is gone'));
	statuses = Promise.reject(new Error('the store is gone'));
	size = Promise.reject(new Error('the store is gone'));
	const later = await metrics.text();
	t.notRegex(later, /^mailctl_(queue_size|suspended|queue_lanes_waiting|warm_up_sent_today|reputation_copies)\{/m);
	t.regex(later, /^mailctl_outcomes_total\{kind="delivered"\} 1$/m);
});
