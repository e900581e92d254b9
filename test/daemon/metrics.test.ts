import test from 'ava';
import {createMetrics} from '../../src/daemon/metrics.ts';
import type {Attempt, AttemptResult} from '../../src/mail/outcome.ts';
import type {QueueSize} from '../../src/store/queue-size.ts';

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

test('what happened is counted', async t => {
	let size: Promise<QueueSize> = Promise.resolve({ready: 3, deferred: 2, inFlight: 1, held: 5});
	const metrics = createMetrics({
		version: '1.2.3',
		queueSize: () => size,
		webhooksPending: async () => 4,
		domainStates: async () => ({verified: 2, failed: 0}),
	});
	metrics.accepted('live', 3);
	metrics.accepted('test', 1);
	metrics.accepted('live', 2);
	metrics.attempted(
		result({kind: 'delivered'}, [
			{...attempt, code: null, phase: 'connect'},
			{...attempt, code: 250},
		]),
		700,
	);
	metrics.attempted(result({kind: 'deferred', category: 'rate', reason: 'x'}, [{...attempt, code: 451}]), 700);
	metrics.httpRequest('POST', '/v1/messages', 202, 4);
	const text = await metrics.text();
	for (const line of [
		'mailctl_messages_accepted_total{mode="live"} 5',
		'mailctl_domains{state="verified"} 2',
		'mailctl_domains{state="failed"} 0',
		'mailctl_messages_accepted_total{mode="test"} 1',
		'mailctl_outcomes_total{kind="delivered"} 1',
		'mailctl_outcomes_total{kind="deferred"} 1',
		'mailctl_send_attempts_total{phase="connect",reply="none"} 1',
		'mailctl_send_attempts_total{phase="rcpt",reply="2xx"} 1',
		'mailctl_send_attempts_total{phase="rcpt",reply="4xx"} 1',
		'mailctl_delivery_duration_seconds_bucket{le="1"} 1',
		'mailctl_delivery_duration_seconds_count 1',
		'mailctl_http_request_duration_seconds_count{method="POST",route="/v1/messages",status="202"} 1',
		'mailctl_queue_size{state="ready"} 3',
		'mailctl_queue_size{state="deferred"} 2',
		'mailctl_queue_size{state="in_flight"} 1',
		'mailctl_queue_size{state="held"} 5',
		`mailctl_build_info{version="1.2.3",node="${process.version}"} 1`,
	]) {
		t.true(text.split('\n').includes(line), line);
	}

	t.regex(text, /^mailctl_nodejs_eventloop_lag_p99_seconds /m);
	t.regex(metrics.contentType, /^text\/plain/);

	size = Promise.reject(new Error('the store is gone'));
	const later = await metrics.text();
	t.notRegex(later, /^mailctl_queue_size\{/m);
	t.regex(later, /^mailctl_outcomes_total\{kind="delivered"\} 1$/m);
});
