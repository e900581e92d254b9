import {createSecureContext} from 'node:tls';
import test, {type ExecutionContext} from 'ava';
import {fetchPolicy, type PolicyFailure, StsPolicies} from '../../src/deliver/sts-policies.ts';
import {createResolver} from '../../src/net/resolver.ts';
import type {StoredPolicy} from '../../src/resources/domains/tls-store.ts';
import {makeCertificate} from '../helpers/certificate.ts';
import {startFakeDns, type Zone} from '../helpers/fake-dns.ts';
import {type PolicyAnswer, policyText, startPolicyHost} from '../helpers/policy-host.ts';
import {waitFor} from '../helpers/wait.ts';

const minute = 60_000;
const day = 24 * 60 * minute;
const certificate = makeCertificate('mta-sts.example.test');
const otherName = makeCertificate('www.example.test');
const enforce: PolicyAnswer = {text: policyText('enforce', ['mx.example.test'])};

type Setup = {
	readonly answer?: PolicyAnswer;
	readonly certificate?: typeof certificate;
	/** The authorities that the daemon trusts. */
	readonly ca?: string;
	readonly allowPrivate?: boolean;
	readonly zone?: Zone;
	readonly limitMs?: number;
} & Pick<Partial<ConstructorParameters<typeof StsPolicies>[0]>, 'holdMs' | 'read'>;

async function start(t: ExecutionContext, setup: Setup = {}) {
	let passed = 0;
	const clock = {now: () => Date.now() + passed, monotonic: () => performance.now() + passed};
	const host = await startPolicyHost(t, setup.certificate ?? certificate, setup.answer ?? enforce);
	const dns = await startFakeDns(t, {
		'_mta-sts.example.test': {txt: ['v=STSv1; id=1;']},
		'mta-sts.example.test': {a: [host.address]},
		...setup.zone,
	});
	const resolver = createResolver({servers: [dns.server], timeoutMs: 60_000, tries: 1, clock});
	const saved: StoredPolicy[] = [];
	const failures: PolicyFailure[] = [];
	const fetching = {
		resolver,
		port: host.port,
		allowPrivate: setup.allowPrivate ?? true,
		secureContext: createSecureContext({ca: setup.ca ?? certificate.cert}),
		userAgent: 'mailctl/1',
		limitMs: setup.limitMs ?? 60_000,
	};
	const policies = new StsPolicies({
		resolver,
		fetch: domain => fetchPolicy(domain, fetching),
		read: setup.read ?? (async domain => saved.findLast(policy => policy.domain === domain) ?? null),
		save: async policy => void saved.push(policy),
		observer: {policyFailed: failure => failures.push(failure)},
		clock,
		holdMs: setup.holdMs ?? 60_000,
	});
	return {
		...{host, dns, saved, failures},
		policyOf: () => policies.policyFor('example.test'),
		requests: () => host.receiver.received.length,
		pass(ms: number) {
			passed += ms;
		},
	};
}

test('fetches a policy once, stores it and uses it without further requests', async t => {
	const {policyOf, host, dns, saved, requests, pass} = await start(t);
	t.deepEqual(await policyOf(), {mode: 'enforce', mx: ['mx.example.test']});
	const [request] = host.receiver.received;
	t.like(request, {method: 'GET', path: '/.well-known/mta-sts.txt'});
	t.is(request?.headers.host, `mta-sts.example.test:${host.port}`);
	t.like(saved, {length: 1, 0: {domain: 'example.test', policyId: '1', mode: 'enforce', mx: ['mx.example.test']}});
	t.is(Date.parse(saved[0]?.expiresAt ?? '') - Date.parse(saved[0]?.fetchedAt ?? ''), 604_800_000);

	const asked = dns.queries.length;
	await policyOf();
	t.is(dns.queries.length, asked);
	pass(6 * minute);
	await policyOf();
	t.is(dns.queries.length, asked + 1, 'the id is asked for again, the policy is not fetched');
	t.is(requests(), 1);
});

test('concurrent lookups share one fetch', async t => {
	const {policyOf, requests} = await start(t);
	const all = await Promise.all(Array.from({length: 50}, policyOf));
	t.true(all.every(policy => policy?.mode === 'enforce'));
	t.is(requests(), 1);
});

test('a new id makes it fetch the new policy', async t => {
	const {policyOf, host, dns, requests, pass} = await start(t);
	await policyOf();
	host.answer = {text: policyText('testing', ['new.example.test'])};
	dns.zone['_mta-sts.example.test'] = {txt: ['v=STSv1; id=2;']};
	pass(6 * minute);
	t.deepEqual(await policyOf(), {mode: 'testing', mx: ['new.example.test']});
	t.is(requests(), 2);
	host.answer = {text: policyText('none', [])};
	dns.zone['_mta-sts.example.test'] = {txt: ['v=STSv1; id=3;']};
	pass(6 * minute);
	t.is(await policyOf(), null);
});

test('keeps a policy until it expires, even if its host is down or its record is removed', async t => {
	const {policyOf, host, dns, failures, pass} = await start(t);
	await policyOf();
	host.answer = {text: 'gone', status: 503};
	dns.zone['_mta-sts.example.test'] = {txt: ['v=STSv1; id=2;']};
	pass(6 * minute);
	t.is((await policyOf())?.mode, 'enforce');
	t.like(failures, {length: 1, 0: {failure: 'sts-policy-fetch-error', hasValidPolicy: true}});
	for (const answer of ['servfail', 'nxdomain', {txt: []}, {txt: ['v=STSv1; id=1;', 'v=STSv1; id=2;']}] as const) {
		dns.zone['_mta-sts.example.test'] = answer;
		pass(day);
		t.is((await policyOf())?.mode, 'enforce');
	}

	pass(3 * day);
	t.is(await policyOf(), null);
});

test('fetches a day-old policy again while the old one stays valid', async t => {
	const {policyOf, host, saved, requests, pass} = await start(t);
	await policyOf();
	host.answer = {text: policyText('enforce', ['mx.example.test', 'second.example.test'])};
	pass(day + minute);
	t.deepEqual((await policyOf())?.mx, ['mx.example.test']);
	await waitFor('the new policy', () => saved.length === 2);
	t.is((await policyOf())?.mx.length, 2);
	t.is(requests(), 2);
});

test('a stored policy stays valid after a restart, whatever its host responds', async t => {
	const first = await start(t);
	await first.policyOf();
	const next = await start(t, {
		read: async () => first.saved[0] ?? null,
		answer: {text: '', status: 404},
		zone: {'_mta-sts.example.test': 'servfail'},
	});
	t.is((await next.policyOf())?.mode, 'enforce');
	const broken = await start(t, {read: () => Promise.reject(new Error('the store is away'))});
	await t.throwsAsync(broken.policyOf, {message: 'the store is away'});
});

test('treats an unavailable policy as none and retries after 5 minutes', async t => {
	const {policyOf, host, failures, requests, pass} = await start(t, {answer: {text: '', status: 404}});
	t.is(await policyOf(), null);
	t.is(await policyOf(), null);
	t.is(requests(), 1);
	t.like(failures, {
		length: 1,
		0: {domain: 'example.test', failure: 'sts-policy-fetch-error', hasValidPolicy: false},
	});
	host.answer = enforce;
	pass(4 * minute);
	t.is(await policyOf(), null);
	pass(minute + 1000);
	t.is((await policyOf())?.mode, 'enforce');
});

test('fetches no policy without a record, and queries DNS again after 5 minutes', async t => {
	const {policyOf, dns, requests, pass} = await start(t, {zone: {'_mta-sts.example.test': 'nxdomain'}});
	t.is(await policyOf(), null);
	pass(4 * minute);
	t.is(await policyOf(), null);
	t.deepEqual(dns.queries, ['TXT _mta-sts.example.test']);
	t.is(requests(), 0);
});

test('a hanging policy host delays messages only up to a limit, and its policy applies once it arrives', async t => {
	const {policyOf, host, requests, saved} = await start(t, {answer: 'hangs', holdMs: 1000});
	t.is(await policyOf(), null);
	await waitFor('the request', () => requests() === 1);
	t.is(await policyOf(), null, 'those who come later do not wait again, nor fetch it again');
	host.answer = enforce;
	host.release();
	await waitFor('the policy', () => saved.length === 1);
	t.is((await policyOf())?.mode, 'enforce');
	t.is(requests(), 1);
});

test('gives up a fetch after its time limit', async t => {
	const {policyOf, failures} = await start(t, {answer: 'hangs', limitMs: 300});
	t.is(await policyOf(), null);
	t.regex(failures[0]?.reason ?? '', /^mta-sts\.example\.test did not return a policy within 0\.3 s$/);
});

const refused: ReadonlyArray<readonly [what: string, failure: string, setup: Setup]> = [
	['a redirect', 'sts-policy-fetch-error', {answer: {redirect: 'https://mta-sts.example.test/other.txt'}}],
	[
		'a type other than text/plain',
		'sts-policy-invalid',
		{answer: {text: policyText('enforce', ['a.test']), type: 'text/html'}},
	],
	['a missing type', 'sts-policy-invalid', {answer: {text: policyText('enforce', ['a.test']), type: ''}}],
	['more than 64 KiB', 'sts-policy-invalid', {answer: {text: `${'x: y\n'.repeat(14_000)}`}}],
	['an invalid policy', 'sts-policy-invalid', {answer: {text: 'version: STSv1\nmode: enforce\n'}}],
	['a certificate for another name', 'sts-webpki-invalid', {certificate: otherName, ca: otherName.cert}],
	['a certificate of an unknown authority', 'sts-webpki-invalid', {ca: otherName.cert}],
	['a private address', 'sts-policy-fetch-error', {allowPrivate: false}],
	['a host without an address', 'sts-policy-fetch-error', {zone: {'mta-sts.example.test': {}}}],
	['a failed lookup', 'sts-policy-fetch-error', {zone: {'mta-sts.example.test': 'servfail'}}],
];
for (const [what, failure, setup] of refused) {
	test(`rejects ${what}`, async t => {
		const {policyOf, host, failures, requests} = await start(t, setup);
		t.is(await policyOf(), null);
		t.like(failures, {length: 1, 0: {failure}});
		t.log(failures[0]?.reason);
		t.true(requests() <= 1, 'no redirect is followed');
		if (setup.allowPrivate === false) {
			t.is(host.receiver.connections(), 0);
		}
	});
}

test('rejects a host if one of its addresses is private', async t => {
	const {policyOf, host, failures} = await start(t, {
		allowPrivate: false,
		zone: {'mta-sts.example.test': {a: ['192.0.2.1', '8.8.8.8']}},
	});
	t.is(await policyOf(), null);
	t.regex(failures[0]?.reason ?? '', /192\.0\.2\.1, which is not public/);
	t.is(host.receiver.connections(), 0);
});

test('accepts text/plain with parameters', async t => {
	const {policyOf} = await start(t, {
		answer: {text: policyText('testing', ['*.example.test']), type: 'Text/Plain; charset=utf-8'},
	});
	t.deepEqual(await policyOf(), {mode: 'testing', mx: ['*.example.test']});
});
