import test from 'ava';
import {KnownAnswers} from '../../../src/inbound/reports/known-answers.ts';
import {checkSpf, type SpfClient, type SpfResult} from '../../../src/inbound/reports/spf.ts';
import type {DnsAnswer, MxRecord, Question} from '../../../src/net/dns.ts';

type Zone = Readonly<Record<string, DnsAnswer<string | MxRecord>>>;

const text = (record: string, ...more: string[]): DnsAnswer<string> => ({kind: 'found', records: [record, ...more]});
const addresses = (...records: string[]): DnsAnswer<string> => ({kind: 'found', records});
const from: SpfClient = {client: '192.0.2.7', helo: 'mx.example.net', sender: 'ada@example.net'};

/** Makes lookups in rounds, as the daemon does; returns the result, the lookups and the number of rounds. */
function check(zone: Zone, client: Partial<SpfClient> = {}) {
	const answers = new Map<string, DnsAnswer<unknown>>();
	for (let rounds = 0; ; rounds++) {
		const known = new KnownAnswers(answers);
		const {result} = checkSpf(known, {...from, ...client});
		if (known.missing.length === 0) {
			return {result, asked: [...answers.keys()], rounds};
		}
		for (const {type, name} of known.missing satisfies readonly Question[]) {
			answers.set(`${type} ${name}`, zone[`${type} ${name}`] ?? {kind: 'nxdomain'});
		}
	}
}

const ofRecord = (record: string, zone: Zone = {}, client: Partial<SpfClient> = {}) =>
	check({...zone, 'txt example.net': text(record)}, client);

test('applies the first mechanism that matches the client', t => {
	const zone = {
		'a example.net': addresses('192.0.2.7'),
		'a web.example.net': addresses('198.51.100.1', '192.0.2.99'),
		'mx example.net': {kind: 'found', records: [{exchange: 'mx1.example.net', priority: 1}]},
		'a mx1.example.net': addresses('192.0.2.7'),
		'aaaa v6.example.net': addresses('2001:db8::1'),
		'ptr 7.2.0.192.in-addr.arpa': addresses('host.example.net', 'forged.example'),
		'a host.example.net': addresses('192.0.2.7'),
		'a forged.example': addresses('203.0.113.1'),
		'txt good.example': text('v=spf1 ip4:192.0.2.0/24 -all'),
		'txt bad.example': text('v=spf1 ip4:198.51.100.0/24 -all'),
		'a 7.2.0.192.ok.example.net': addresses('127.0.0.2'),
		'a ada.l.example.net': addresses('127.0.0.2'),
		'a a%26b.l.example.net': addresses('127.0.0.2'),
	} satisfies Zone;
	for (const [record, result, client] of [
		['v=spf1 -all', 'fail'],
		['v=spf1', 'neutral'],
		['V=SPF1 ~ALL', 'softfail'],
		['v=spf1 a -all', 'pass'],
		['v=spf1 a:web.example.net -all', 'fail'],
		['v=spf1 a:web.example.net/24 -all', 'pass'],
		['v=spf1 a:web.example.net/24//64 -all', 'pass'],
		['v=spf1 mx ?all', 'pass'],
		['v=spf1 ptr -all', 'pass'],
		['v=spf1 ptr:forged.example -all', 'fail'],
		['v=spf1 include:bad.example ?include:good.example -all', 'neutral'],
		['v=spf1 redirect=good.example', 'pass'],
		['v=spf1 redirect=bad.example', 'fail'],
		['v=spf1 exists:%{ir}.ok.%{d} -all', 'pass'],
		['v=spf1 exists:%{l}.l.%{o} -all', 'pass'],
		['v=spf1 exists:%{L}.l.%{o} -all', 'pass', {sender: 'a&b@example.net'}],
		['v=spf1 exists:%{l1r-}.l.%{d2} -all', 'pass', {sender: 'ada-x@example.net'}],
		['v=spf1 a:v6.example.net -all', 'pass', {client: '2001:db8::1'}],
		['v=spf1 ip6:2001:db8::/32 -all', 'pass', {client: '2001:db8:ffff::1'}],
		['v=spf1 ip4:0.0.0.0/0 -all', 'fail', {client: '2001:db8::1'}],
		['v=spf1 a -all', 'pass', {client: '::ffff:192.0.2.7'}],
	] as Array<[string, SpfResult, Partial<SpfClient>?]>) {
		t.is(ofRecord(record, zone, client).result, result, record);
	}
	t.is(check({'txt mx.example.net': text('v=spf1 -all')}, {sender: ''}).result, 'fail', 'a bounce, by HELO');
	t.is(check({}).result, 'none');
	t.is(check({}, {sender: 'a@localhost'}).result, 'none');
	t.is(check({'txt example.net': text('v=spf1 -all', 'v=spf1 +all')}).result, 'permerror');
	t.is(check({'txt example.net': text('other', 'v=spf10', 'v=spf1 +all')}).result, 'pass');
	t.is(check({'txt example.net': {kind: 'failed', code: 'ESERVFAIL'}}).result, 'temperror');
});

test('uses the A-labels of an internationalized sender domain in lookups and macros (RFC 8616)', t => {
	const ascii = 'xn--bcher-kva.example';
	for (const domain of ['bücher.example', 'BÜCHER.example', ascii]) {
		const zone = {
			[`txt ${ascii}`]: text('v=spf1 exists:%{o}.ok.example exists:%{l}.no.example -all'),
			[`a ${ascii}.ok.example`]: addresses('127.0.0.2'),
		};
		t.like(check(zone, {sender: `ada@${domain}`}), {result: 'pass'}, domain);
		const known = new KnownAnswers(new Map());
		t.is(checkSpf(known, {...from, sender: `ада@${domain}`}).domain, ascii);
		t.deepEqual(known.missing, [{type: 'txt', name: ascii}]);
		// A local part that is not ASCII matches no macro.
		const local = {[`txt ${ascii}`]: text('v=spf1 exists:%{l}.ok.example -all')};
		t.like(check(local, {sender: `ада@${domain}`}), {result: 'fail', asked: [`txt ${ascii}`]});
	}
	t.is(check({}, {sender: 'ada@bü cher.example'}).result, 'none');
	t.is(check({[`txt ${ascii}`]: text('v=spf1 +all')}, {sender: '', helo: 'bücher.example'}).result, 'pass');
});

test('rejects a record with an error anywhere in it', t => {
	for (const term of [
		...[
			'foo',
			'all:x',
			'a:',
			'include',
			'exists',
			'ip4',
			'ip4:1.2.3',
			'ip4:1.2.3.4/33',
			'ip4:1.2.3.4/024',
			'ip6:1.2.3.4',
		],
		...[
			'a/33',
			'a//129',
			'a:x',
			'a:example.net-',
			'include:%{x}.test',
			'include:%{l',
			'include:%(l).test',
			'exists:%{c}.test',
		],
		...[
			'include:a.%',
			'redirect=a.test redirect=b.test',
			'redirect=',
			'exp=%',
			'x=%{z}',
			'ptr/24',
			'include:%{l0}.test',
		],
	]) {
		t.is(ofRecord(`v=spf1 ${term} +all`).result, 'permerror', term);
	}
	t.is(ofRecord('v=spf1 x-y=any/thing exp=%{d}.test +all').result, 'pass');
});

test('rejects names that are invalid after macro expansion, without looking them up', t => {
	const sender = `${'a'.repeat(64)}@example.net`;
	for (const term of [
		`include:x.${'%{l}'.repeat(400)}_`,
		`include:x.${'%{l}'.repeat(400)}.test`,
		`exists:${'%{l}.'.repeat(400)}test`,
		`a:${'%{h}.'.repeat(100)}test`,
		`mx:%{l}${'a'.repeat(10)}.test`,
		`redirect=${'%{s99r-+,/_=}.'.repeat(300)}test`,
		`ptr:${'a'.repeat(64)}.test`,
		'include:a..test',
	]) {
		const {result, asked} = ofRecord(`v=spf1 ${term}`, {}, {sender});
		t.deepEqual([result, asked], ['permerror', ['txt example.net']], term);
	}
	const long = ofRecord('v=spf1 exists:%{l1}.test -all', {}, {sender: `${'a.'.repeat(5000)}a@example.net`});
	t.deepEqual(long.asked, []);
	t.is(check({}, {sender: `a@${'a.'.repeat(200)}test`}).result, 'none');
	t.is(check({}, {sender: '', helo: `${'a'.repeat(64)}.test`}).result, 'none');
	const odd = ofRecord('v=spf1 exists:%{l}.test -all', {}, {sender: 'a\\ b é@example.net'});
	t.deepEqual([odd.result, odd.asked], ['fail', ['txt example.net']]);
});

test('limits lookups to ten in total, two without a result, and ten mail servers', t => {
	const hosts = (n: number, found = n): Zone =>
		Object.fromEntries(
			Array.from({length: found}, (_, i) => [`a h${i}.test`, addresses('198.51.100.1')] as const).slice(0, found),
		);
	const terms = (n: number) => Array.from({length: n}, (_, i) => `a:h${i}.test`).join(' ');
	t.is(ofRecord(`v=spf1 ${terms(10)} -all`, hosts(10)).result, 'fail');
	t.is(ofRecord(`v=spf1 ${terms(11)} -all`, hosts(11)).result, 'permerror');
	t.is(ofRecord(`v=spf1 ${terms(5)} -all`, hosts(5, 3)).result, 'fail');
	t.is(ofRecord(`v=spf1 ${terms(5)} -all`, hosts(5, 2)).result, 'permerror');
	const loop = ofRecord('v=spf1 include:example.net -all');
	t.deepEqual([loop.result, loop.asked.length], ['permerror', 1]);
	const exchangers = Array.from({length: 11}, (_, priority) => ({exchange: `h${priority}.test`, priority}));
	t.is(ofRecord('v=spf1 mx -all', {'mx example.net': {kind: 'found', records: exchangers}}).result, 'permerror');
	const all = ofRecord(`v=spf1 ${terms(2000)} -all`, hosts(2000));
	t.is(all.result, 'permerror');
	t.is(all.asked.length, 11);
});

test('looks up all names of a record in parallel', t => {
	const exchangers = Array.from({length: 5}, (_, priority) => ({exchange: `h${priority}.test`, priority}));
	const {rounds} = ofRecord('v=spf1 include:b.test a:c.test mx exists:d.test redirect=e.test', {
		'mx example.net': {kind: 'found', records: exchangers},
		'txt b.test': text('v=spf1 a:x.test a:y.test a:z.test -all'),
	});
	t.is(rounds, 3);
});

test('evaluates the longest records of ten domains within the time of one', t => {
	const sender = `${'a.'.repeat(120)}a@example.net`;
	const macros = '%{l1r-+,/_=}'.repeat(330);
	const zone: Record<string, DnsAnswer<string>> = {};
	for (let n = 0; n < 10; n++) {
		zone[`txt d${n}.test`] = text(
			`v=spf1 ${n === 9 ? '' : `include:d${n + 1}.test`} x=${macros} ${'ip4:1.2.3.4 '.repeat(10)}`,
		);
	}
	const began = performance.now();
	t.is(ofRecord('v=spf1 include:d0.test -all', zone, {sender}).result, 'fail');
	t.true(performance.now() - began < 5000);
});
