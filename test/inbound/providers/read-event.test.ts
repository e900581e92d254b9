import {readFileSync} from 'node:fs';
import test from 'ava';
import fc from 'fast-check';
import type {Fields} from '../../../src/inbound/providers/provider.ts';
import {guessProvider, providers} from '../../../src/inbound/providers/providers.ts';
import {eventBytes, readEvent, type StoredEvent} from '../../../src/inbound/providers/read-event.ts';
import {optionalEvents, type ProviderName, providerNames} from '../../../src/mail/provider.ts';
import type {Report} from '../../../src/mail/report.ts';
import {classify} from '../../helpers/classify.ts';

type Example = {readonly what: string; readonly event: Fields};

/** The report that each kind of event is read as. */
const expected: Readonly<Record<string, Partial<Report>>> = {
	delivered: {action: 'delivered', suppresses: false},
	bounced: {action: 'failed', type: 'permanent', suppresses: true},
	soft: {action: 'failed', type: 'transient', suppresses: false},
	dropped: {action: 'failed', type: 'permanent', category: 'policy', suppresses: true},
	deferred: {action: 'delayed', suppresses: false},
	complained: {action: 'complaint', suppresses: false},
	unsubscribed: {action: 'unsubscribe', suppresses: false},
	opened: {action: 'opened', suppresses: false},
	clicked: {action: 'clicked', suppresses: false},
	other: {action: 'none', suppresses: false},
};

const stored = (provider: ProviderName, event: Fields) =>
	eventBytes({provider, workspace: null, takes: optionalEvents, event});

const examplesOf = (provider: string) =>
	JSON.parse(readFileSync(`test/fixtures/providers/${provider}.json`, 'utf8')) as readonly Example[];

for (const provider of providerNames) {
	for (const [index, {what, event}] of examplesOf(provider).entries()) {
		test(`${provider}, example ${index + 1}: ${what}`, t => {
			const body =
				provider === 'ses' ? {Type: 'Notification', Message: JSON.stringify(event)} : bodyOf(provider, event);
			const events = providers[provider].events(body);
			t.is(events?.length, 1);
			const {kind, reports, clues} = readEvent(stored(provider, events?.[0] ?? {}), classify);
			t.is(kind, 'provider');
			t.is(reports.length, 1);
			t.like(reports[0], expected[what] ?? t.fail(`${what} is not a kind of event`));
			// Amazon does not name the recipient of a rejection or an opt-out, only the message.
			const names = provider !== 'ses' || !/Reject|Subscription|Open|Click|Send/.test(String(event.eventType));
			t.is(reports[0]?.recipient ?? null, names ? 'ada@example.org' : null);
			t.true(clues.refs.includes('rTOKEN'), JSON.stringify(clues));
		});
	}
}

function bodyOf(provider: string, event: Fields): unknown {
	return provider === 'mailgun' ? {signature: {}, 'event-data': event} : [event];
}

test('recognizes the provider of each recorded post and of the examples in the guide', t => {
	for (const provider of providerNames) {
		for (const {event} of examplesOf(provider)) {
			t.is(guessProvider(bodyOf(provider, event)), provider, JSON.stringify(event));
		}
	}
	const guide = readFileSync('docs/guide/smarthosts.md', 'utf8');
	const bodies = [...guide.matchAll(/^body='(.*)'$/gm)].map(([, body = '']) => JSON.parse(body));
	t.true(bodies.length > 0);
	for (const body of bodies) {
		t.is(guessProvider(body), 'generic');
		const [event = {}] = providers.generic.events(body) ?? [];
		t.like(readEvent(stored('generic', event), classify).reports[0], {action: 'failed', category: 'unknown_user'});
	}
});

test('echoes the token in a valid header for every provider', t => {
	for (const provider of providerNames) {
		const [name, value] = providers[provider].echo?.('r0123456789') ?? ['X-Mailctl-Ref', 'r0123456789'];
		t.regex(`${name}: ${value}`, /^X-[A-Za-z-]+: [\x21-\x7e ]*r0123456789[\x21-\x7e]*$/, provider);
	}
});

test('reads the codes and the reply of the mail server from a rejection', t => {
	const read = (event: Fields) => readEvent(stored('postmark', event), classify).reports[0];
	const bounce = {RecordType: 'Bounce', Type: 'HardBounce', Details: 'smtp;550 5.1.1 No such user'};
	t.like(read(bounce), {code: 550, status: '5.1.1', category: 'unknown_user', reason: '550 5.1.1 No such user'});
	t.like(read({...bounce, Type: 'Transient', Details: 'smtp;451 4.7.1 Greylisted'}), {code: 451, status: '4.7.1'});
	t.like(read({RecordType: 'Delivery', Details: 'smtp;250 ok queued as 551'}), {code: null, status: null});
});

test('does not treat replies and unsubscribes as bounces, even if SparkPost does', t => {
	for (const type of ['bounce', 'out_of_band']) {
		for (const bounceClass of ['60', '80', '100']) {
			const event = {
				type,
				bounce_class: bounceClass,
				error_code: '550',
				raw_reason: '550 auto-reply/vacation mail',
			};
			t.like(
				readEvent(stored('sparkpost', event), classify).reports[0],
				{action: 'none', suppresses: false},
				`${type} ${bounceClass}`,
			);
		}
	}
});

test('applies the type of a complaint, however it is spelled', t => {
	const sesComplaint = (complaintFeedbackType: string) => ({
		...{eventType: 'Complaint', mail: {}},
		complaint: {complaintFeedbackType, complainedRecipients: [{emailAddress: 'ada@example.org'}]},
	});
	for (const [type, action] of [
		['not_spam', 'none'],
		['not spam', 'none'],
		[' Not-Spam ', 'none'],
		['auth_failure', 'none'],
		['opt_out', 'unsubscribe'],
		['abuse', 'complaint'],
		['', 'complaint'],
	] as const) {
		for (const [provider, event] of [
			['ses', sesComplaint(type)],
			['sparkpost', {type: 'spam_complaint', fbtype: type}],
			['generic', {type: 'complained', feedback_type: type}],
		] as const) {
			t.like(readEvent(stored(provider, event), classify).reports[0], {action}, `${provider}: ${type}`);
		}
	}
});

test('keeps the whole URL of a click', t => {
	const url = `https://shop.example/?${'q=550+5.1.1&'.repeat(200)}z`;
	for (const [provider, event] of [
		['sendgrid', {event: 'click', url}],
		['generic', {type: 'clicked', reason: url}],
		['ses', {eventType: 'Click', mail: {}, click: {link: url}}],
	] as const) {
		t.like(readEvent(stored(provider, event), classify).reports[0], {action: 'clicked', reason: url}, provider);
	}
});

test('counts opens, clicks and opt-outs tracked by a provider only if the operator enables them', t => {
	for (const [type, action] of [
		['opened', 'opened'],
		['clicked', 'clicked'],
		['unsubscribed', 'unsubscribe'],
	] as const) {
		const read = (takes: StoredEvent['takes']) =>
			readEvent(eventBytes({provider: 'generic', workspace: null, takes, event: {type}}), classify).reports[0]
				?.action;
		t.is(read([]), 'none');
		t.is(read([type]), action);
	}
});

test('reads any JSON without throwing and truncates long values', t => {
	const names = [
		'event',
		'type',
		'RecordType',
		'eventType',
		'bounce',
		'mail',
		'email',
		'msys',
		'reason',
		'event-data',
	];
	const value = fc.letrec(tie => ({
		any: fc.oneof(
			{maxDepth: 4},
			fc.jsonValue(),
			fc.constantFrom('Bounce', 'bounce', 'failed', 'x'.repeat(10_000), 'delivered', 'SpamComplaint'),
			fc.array(tie('any'), {maxLength: 4}),
			fc.dictionary(fc.oneof(fc.constantFrom(...names), fc.string()), tie('any'), {maxKeys: 6}),
		),
	})).any;
	fc.assert(
		fc.property(fc.constantFrom(...providerNames), value, (provider, body) => {
			for (const event of providers[provider].events(body) ?? []) {
				const {reports, clues} = readEvent(stored(provider, event), classify);
				const longest = (report: Report) => (report.action === 'clicked' ? 4096 : 1024);
				t.true(reports.every(one => one.reason.length <= longest(one) && (one.recipient?.length ?? 0) <= 4096));
				t.true(Object.values(clues).every(list => list.length <= 100));
			}
		}),
		{numRuns: 2000},
	);
});
