import test from 'ava';
import type {Attempt, Outcome, TlsResult} from '../../src/mail/outcome.ts';
import {siteEnd} from '../../src/queue/attempt.ts';
import {plainTerms} from '../helpers/delivery-lab.ts';

const deferred: Outcome = {kind: 'deferred', category: 'policy', reason: 'MTA-STS: …'};

function attemptOf(phase: Attempt['phase'], tlsResult?: TlsResult): Attempt {
	const [at, reply] = ['2026-11-21T10:00:00.000Z', 'a reply'];
	return {
		...{at, host: 'mx.test', ip: '192.0.2.1', tls: null, tlsResult, phase},
		...{code: null, enhanced: null, reply, ms: 1, dialogue: null},
	};
}

function endOf(...attempts: Attempt[]): string | null {
	return endAt('mx.test', ...attempts);
}

function endAt(site: string, ...attempts: Attempt[]): string | null {
	const at = '2026-11-21T10:00:00.000Z';
	const result = {recipientId: 'rcp_1', outcome: deferred, attempts, sentAt: null, at};
	return siteEnd(result, {site, terms: plainTerms}, 'a.test')?.kind ?? null;
}

test('does not blame mail servers that may serve many domains for the policy of one', t => {
	t.is(endOf(attemptOf('route', {policy: 'sts', result: 'validation-failure'})), null);
	t.is(endOf(attemptOf('starttls', {policy: 'sts', result: 'certificate-host-mismatch'})), null);
	t.is(endOf(attemptOf('starttls', {policy: 'tlsa', result: 'tlsa-invalid'})), null);
	t.is(endOf(attemptOf('route', {policy: 'tlsa', result: 'dnssec-invalid'}), attemptOf('connect')), 'failed');
});

test('blames the mail server for a failed TLS handshake without a policy', t => {
	t.is(endOf(attemptOf('starttls', {policy: 'no-policy-found', result: 'validation-failure'})), 'failed');
	t.is(endOf(attemptOf('connect')), 'failed');
});

test('does not blame mail servers that serve many domains for the DNS failure of one', t => {
	t.is(endAt('aspmx.l.google.com', attemptOf('route')), null);
	t.is(endAt('a.test', attemptOf('route')), 'failed', 'a site of its own');
});

test('treats a mail server that falls silent before it has the message as unreachable', t => {
	const silent: Attempt = {...attemptOf('mail'), isSilent: true};
	t.is(endOf(silent), 'failed');
	t.is(endOf(attemptOf('mail')), 'throttled', 'one that hung up wants less');
	const result = {recipientId: 'rcp_1', outcome: deferred, attempts: [silent], sentAt: null, at: silent.at};
	t.false(siteEnd(result, {site: 'mx.test', terms: plainTerms}, 'a.test')?.hasReplied);
});

test('treats a permanent rejection of our address as a block by the provider, but not via a relay', t => {
	const reply = '5.7.1 Client host [192.0.2.1] is blocked';
	const refused = {...attemptOf('rcpt'), code: 550, reply};
	const bounced = {kind: 'bounced', type: 'permanent', category: 'block', reason: reply, suppresses: false} as const;
	const result = {recipientId: 'rcp_1', outcome: bounced, attempts: [refused], sentAt: null, at: refused.at};
	const end = (changes: object, terms: object = {}) =>
		siteEnd({...result, ...changes}, {site: 'mx.test', terms: {...plainTerms, ...terms}}, 'a.test')?.isBlock;
	t.true(end({}));
	t.false(end({outcome: {...bounced, category: 'spam_content'}}));
	t.false(end({attempts: [{...refused, reply: '5.7.1 Message blocked for spam'}]}));
	t.false(end({}, {nextHop: {kind: 'relay', relays: [], acceptMeans: 'sent'}}));
	t.not(end({outcome: {...deferred, category: 'block'}}), true);
});
