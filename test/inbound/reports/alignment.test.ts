import test from 'ava';
import {KnownAnswers} from '../../../src/inbound/reports/known-answers.ts';
import {judgeMessage, missingAnswers} from '../../../src/inbound/reports/verdicts.ts';
import type {DnsAnswer} from '../../../src/net/dns.ts';

// DMARC (RFC 7489), judged from given results of SPF and DKIM.

type Given = {
	readonly from: string;
	/** TXT records by the name under `_dmarc.`. */
	readonly records: Readonly<Record<string, readonly string[]>>;
	readonly dkim?: string;
	readonly spf?: string;
};

const client = '192.0.2.7';

function dmarcOf({from, records, dkim, spf}: Given): string {
	const texts = new Map<string, readonly string[]>(
		Object.entries(records).map(([name, all]) => [`_dmarc.${name}`, all]),
	);
	if (spf !== undefined) {
		texts.set(spf, ['v=spf1 +all']);
	}
	const answers = {
		get: (question: string): DnsAnswer<string> => {
			const found = texts.get(question.replace(/^txt /, ''));
			return found ? {kind: 'found', records: found} : {kind: 'nxdomain'};
		},
	} as unknown as ReadonlyMap<string, DnsAnswer<unknown>>;
	const {dmarc} = judgeMessage(
		{client, helo: 'mx.test', mailFrom: spf === undefined ? 'a@nothing.test' : `a@${spf}`},
		{
			from: {address: `ada@${from}`, name: null},
			isAmbiguous: false,
			signatures: dkim === undefined ? [] : [{result: 'pass', domain: dkim}],
		},
		answers,
	);
	return dmarc.result;
}

const bank = 'bank.example';
const policy = (text: string) => ({[bank]: [`v=DMARC1; p=reject; ${text}`]});

for (const [from, proved, relaxed, strict] of [
	[bank, bank, 'pass', 'pass'],
	[bank, `sub.${bank}`, 'pass', 'fail'],
	[`sub.${bank}`, bank, 'pass', 'fail'],
	[`a.${bank}`, `b.${bank}`, 'pass', 'fail'],
	[bank, 'evilbank.example', 'fail', 'fail'],
	[bank, `${bank}.evil.example`, 'fail', 'fail'],
	['BANK.example', 'bank.EXAMPLE'.toLowerCase(), 'pass', 'pass'],
] as const) {
	test(`judges alignment of ${proved} with a From address at ${from}`, t => {
		for (const [mode, expected] of [
			['r', relaxed],
			['s', strict],
			['S ', strict],
			['x', relaxed],
		] as const) {
			t.is(dmarcOf({from, dkim: proved, records: policy(`adkim=${mode}`)}), expected, `adkim=${mode}`);
			t.is(dmarcOf({from, spf: proved, records: policy(`aspf = ${mode}`)}), expected, `aspf=${mode}`);
			// The alignment mode of the other mechanism does not matter.
			t.is(dmarcOf({from, dkim: proved, records: policy(`aspf=${mode}`)}), relaxed, `dkim, aspf=${mode}`);
			t.is(dmarcOf({from, spf: proved, records: policy(`adkim=${mode}`)}), relaxed, `spf, adkim=${mode}`);
		}
	});
}

test('passes if one mechanism is aligned, even if the other one authenticates another domain', t => {
	const records = policy('adkim=s; aspf=r');
	t.is(dmarcOf({from: bank, dkim: `sub.${bank}`, spf: `sub.${bank}`, records}), 'pass');
	t.is(dmarcOf({from: bank, dkim: `sub.${bank}`, spf: 'evil.example', records}), 'fail');
	t.is(dmarcOf({from: bank, dkim: bank, spf: 'evil.example', records}), 'pass');
});

test('does not align two domains that only share a public suffix', t => {
	for (const [from, proved] of [
		['a.co.uk', 'b.co.uk'],
		['co.uk', 'a.co.uk'],
		['a.co.uk', 'co.uk'],
		['a.github.io', 'b.github.io'],
		['a.github.io', 'github.io'],
	] as const) {
		t.is(dmarcOf({from, dkim: proved, records: {[from]: ['v=DMARC1; p=reject']}}), 'fail', `${proved} for ${from}`);
	}
	t.is(dmarcOf({from: 'shop.co.uk', dkim: 'mail.shop.co.uk', records: {'shop.co.uk': ['v=DMARC1; p=none']}}), 'pass');
});

test('selects the DMARC record by RFC 7489 §6.6.3', t => {
	const sub = `sub.${bank}`;
	const judged = (records: Given['records']) => dmarcOf({from: sub, dkim: bank, records});
	const strict = 'v=DMARC1; p=reject; adkim=s';
	const relaxed = 'v=DMARC1; p=reject';
	t.is(judged({[sub]: [strict], [bank]: [relaxed]}), 'fail', 'the own one before that of the organization');
	t.is(judged({[sub]: [relaxed], [bank]: [strict]}), 'pass');
	t.is(judged({[bank]: [strict]}), 'fail', 'that of the organization');
	t.is(
		judged({[sub]: ['v=spf1 -all', 'google-verification=1'], [bank]: [strict]}),
		'fail',
		'other texts are no records',
	);
	t.is(judged({[sub]: ['v=DMARC10; p=none'], [bank]: [strict]}), 'fail');
	t.is(judged({[`a.${sub}`]: [strict]}), 'none', 'none below it');
	t.is(
		dmarcOf({from: `a.${sub}`, dkim: bank, records: {[sub]: [strict], [bank]: [relaxed]}}),
		'pass',
		'none between',
	);
	t.is(judged({[sub]: [relaxed, relaxed], [bank]: [relaxed]}), 'none', 'of two none counts');
	t.is(judged({[bank]: [relaxed, strict]}), 'none');
	t.is(judged({[bank]: ['v=DMARC1']}), 'none', 'no policy');
	t.is(judged({[bank]: ['v=DMARC1; p=what; rua=mailto:a@bank.example']}), 'pass', 'reports alone');
	t.is(judged({[bank]: ['p=reject; v=DMARC1']}), 'none');
	t.is(judged({[bank]: ['v=DMARC1;; junk; p=reject; adkim=r; adkim=s; =x']}), 'fail', 'twice: what demands more');
});

test('compares and looks up a domain by its A-labels', t => {
	const records = {'xn--bcher-kva.example': ['v=DMARC1; p=reject; adkim=s; aspf=s']};
	for (const from of ['bücher.example', 'BÜCHER.example', 'xn--bcher-kva.example']) {
		t.is(dmarcOf({from, dkim: 'xn--bcher-kva.example', records}), 'pass', from);
	}
});

test('makes no lookup for names that cannot have a policy', t => {
	for (const from of [
		'a@b',
		'a@null',
		'"x@b" <a@localhost>',
		'a@[192.0.2.1]',
		'a@co.uk',
		'"a@b" <ada@shop.example>',
	]) {
		const head = Buffer.from(`From: ${from}\r\n\r\n`);
		const missing = missingAnswers(head, {client: null, helo: null, mailFrom: ''}, new KnownAnswers(new Map()));
		const names = missing.map(({name}) => name);
		t.deepEqual(
			names,
			from.includes('shop') ? ['_dmarc.shop.example'] : from === 'a@co.uk' ? ['_dmarc.co.uk'] : [],
			from,
		);
	}
});
