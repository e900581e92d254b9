import test from 'ava';
import {stepOf, toAdvice} from '../../../src/resources/domains/dmarc.ts';
import type {Domain} from '../../../src/resources/domains/store.ts';

const domain = {name: 'shop.example', return_path_domain: null} as Domain;
const names = {receives: true} as Parameters<typeof toAdvice>[1];
const value = 'v=DMARC1; p=none; rua=mailto:dmarc@bounce.shop.example';

function advise(text: string | null, {mine = 1000, lost = 0, theirs = 0, days = 30, receives = true} = {}) {
	const found = text === null ? [] : [text];
	const state = text === null ? 'missing' : 'ok';
	const published = {name: '_dmarc.shop.example', value, state, found, problem: null} as const;
	const ours = {ip: '192.0.2.1', why: '', spf: 0, dkim: 0, n: mine, aligned: mine - lost};
	const by = {own: mine > 0 ? [ours] : [], ownDays: mine > 0 ? days : 0, lost: lost + theirs, days: 30};
	return toAdvice(domain, {...names, receives}, published, by);
}

test('proposes one step at a time and keeps the tags of the existing record', t => {
	t.like(advise(null), {policy: null, next: 'none', record: value, why: 'there is no DMARC record yet'});
	const first = advise('v=DMARC1; p=none; sp=none; rua=mailto:a@b.example; pct=100');
	t.like(first, {
		...{policy: 'none', next: 'quarantine'},
		record: 'v=DMARC1; p=quarantine; sp=none; rua=mailto:a@b.example,mailto:dmarc@bounce.shop.example; pct=100',
	});
	t.like(advise('v=DMARC1;p=Quarantine;adkim=s', {receives: false}), {
		...{policy: 'quarantine', next: 'reject', record: 'v=DMARC1; p=reject; adkim=s'},
	});
	t.like(advise(`${value}!10m`.replace('none', 'reject')), {
		policy: 'reject',
		next: 'reject',
		why: 'this is the strictest policy',
	});
	t.like(advise('v=DMARC1; rua=mailto:a@b.example'), {policy: 'none', next: 'quarantine'});
});

test('waits for a week of reports and for the workspace’s own messages to be aligned', t => {
	const days = advise(value, {days: 6});
	t.like(days, {
		policy: 'none',
		next: 'none',
		record: value,
		why: '6 days of signed reports about your mail so far: wait until there are 7 days',
	});
	t.regex(advise(value, {days: 1}).why, /^1 day of signed reports about/);
	t.regex(advise(value, {mine: 0, theirs: 5}).why, /^no signed reports about your mail so far/);
	const lost = advise(value, {lost: 11});
	t.like(lost, {next: 'none', cost: {ours: 11, others: 0}});
	t.regex(
		lost.why,
		/^11 of your 1,000 messages would be stopped: first find out why those from 192\.0\.2\.1 are not aligned$/,
	);
	t.like(advise(value, {lost: 10, theirs: 4000}), {next: 'quarantine', cost: {ours: 10, others: 4000}});
});

test('extends a partial policy to all messages before the next step', t => {
	const part = advise('v=DMARC1; p=quarantine; pct=5; fo=1', {receives: false});
	t.like(part, {policy: 'quarantine', next: 'quarantine', change: true, record: 'v=DMARC1; p=quarantine; fo=1'});
	t.is(stepOf(part), 'Publish p=quarantine for all mail');
	const last = advise('v=DMARC1; p=reject; pct=0', {receives: false});
	t.like(last, {policy: 'reject', next: 'reject', change: true, record: 'v=DMARC1; p=reject'});
	const early = advise('v=DMARC1; p=reject; pct=0', {receives: false, days: 6});
	t.like(early, {next: 'reject', change: false, record: 'v=DMARC1; p=reject; pct=0'});
	t.is(stepOf(early), 'Keep p=reject');
	const none = advise('v=DMARC1; p=none; pct=20', {receives: false});
	t.like(none, {next: 'quarantine', change: true, record: 'v=DMARC1; p=quarantine'});
	t.is(stepOf(none), 'Publish p=quarantine');
});

test('recognizes the report address only as a complete match', t => {
	const evil = 'mailto:dmarc@bounce.shop.example.evil';
	const uri = 'mailto:dmarc@bounce.shop.example';
	t.is(advise(`v=DMARC1; p=none; rua=${evil}`).record, `v=DMARC1; p=quarantine; rua=${evil},${uri}`);
	for (const rua of [uri, `${uri}!10m`, `mailto:a@b.example , ${uri.toUpperCase()}!5`]) {
		t.is(advise(`v=DMARC1; p=none; rua=${rua}`).record, `v=DMARC1; p=quarantine; rua=${rua}`);
	}
});

test('gives no advice on an invalid record or a failed lookup', t => {
	const published = {name: '_dmarc.shop.example', value, found: ['v=DMARC1; p=non'], problem: 'its p= is wrong'};
	const none = {own: [], ownDays: 0, lost: 0, days: 30};
	t.like(toAdvice(domain, names, {...published, state: 'different'}, none), {
		...{policy: null, next: 'none', record: value, why: 'the record is invalid: its p= is wrong'},
	});
	t.like(toAdvice(domain, names, {...published, state: 'unknown'}, none), {policy: null, next: null});
});
