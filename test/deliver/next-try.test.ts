import test from 'ava';
import fc from 'fast-check';
import {findMxHosts} from '../../src/deliver/find-hosts.ts';
import type {Host} from '../../src/deliver/host.ts';
import type {AttemptResult, PreviousAttempt} from '../../src/mail/outcome.ts';
import type {DnsAnswer, MxRecord, Resolver} from '../../src/net/dns.ts';
import {startLab} from '../helpers/delivery-lab.ts';
import type {FakeMxOptions} from '../helpers/fake-mx.ts';
import {loopbackAddress} from '../helpers/loopback.ts';

// Each attempt continues where the previous one stopped, so that every mail server is contacted in the end.

type Lab = Awaited<ReturnType<typeof startLab>>;

const toPreviousAttempts = (n: number, {attempts}: AttemptResult): PreviousAttempt[] =>
	attempts.map(one => ({...one, n}));

/** Repeats attempts until delivery. Returns the mail servers and addresses that each attempt contacted. */
async function tries(lab: Lab, most: number, recipientId = 'rcp_1'): Promise<string[][]> {
	const all: string[][] = [];
	let previousAttempts: readonly PreviousAttempt[] = [];
	for (let attempt = 1; attempt <= most; attempt++) {
		const result = await lab.deliver({recipientId, attempt, previousAttempts});
		all.push(result.attempts.map(({host, ip}) => `${host} ${ip}`));
		if (result.outcome.kind === 'delivered') {
			return all;
		}

		previousAttempts = [...previousAttempts, ...toPreviousAttempts(attempt, result)];
	}

	throw new Error(`not delivered: ${JSON.stringify(all)}`);
}

const hostsOf = (all: readonly string[][]) =>
	all.map(one => one.map(previousAttempts => /^mx(\d)/.exec(previousAttempts)?.[1]).join(''));

test('delivers by the second attempt if seven of a mail server’s eight addresses refuse connections', async t => {
	const dead = Array.from({length: 7}, loopbackAddress);
	const alive = loopbackAddress();
	const lab = await startLab(t, [{host: alive}], {
		idleMs: 0,
		zone: {'mx0.example.test': {a: [...dead, alive]}},
	});
	const all = await Promise.all(Array.from({length: 20}, (_, n) => tries(lab, 2, `rcp_${n}`)));
	t.is(lab.hosts[0]?.count(), 20);
	const firsts = new Set(all.map(([first]) => first?.[0]));
	t.true(firsts.size > 3, 'they begin with different addresses');
});

for (const [name, busy, expected] of [
	['451 at MAIL', {mail: '451 4.3.0 try later'}, ['01', '23', '4']],
	['450 at MAIL', {mail: '450 4.7.1 try later'}, ['01', '23', '4']],
	['452 at RCPT', {rcpt: '452 4.3.1 full'}, ['01', '23', '4']],
	['451 at DATA', {data: '451 4.3.0 try later'}, ['01', '23', '4']],
	['451 at the dot', {dot: '451 4.3.0 try later'}, ['01', '23', '4']],
	['421 at the greeting', {greeting: '421 4.3.2 busy'}, ['01234']],
	['a greeting that never comes', {greeting: {do: 'drop'}}, ['01234']],
	// A server that greylists expects the same recipient again, so every attempt contacts it.
	['451 at RCPT', {rcpt: '451 4.7.1 try later'}, ['01', '02', '03', '04']],
	['450 at RCPT', {rcpt: '450 4.2.0 try later'}, ['01', '02', '03', '04']],
] as const satisfies ReadonlyArray<readonly [string, FakeMxOptions, readonly string[]]>) {
	test(`reaches the fifth mail server if the first four fail with ${name}`, async t => {
		const hosts: FakeMxOptions[] = [busy, busy, busy, busy, {}];
		const lab = await startLab(t, hosts, {idleMs: 0});
		t.deepEqual(hostsOf(await tries(lab, 4)), [...expected]);
		const equal = await startLab(t, hosts, {
			idleMs: 0,
			zone: {'example.test': {mx: hosts.map((_, n) => [10, `mx${n}.example.test`] as const)}},
		});
		await tries(equal, 6);
		t.is(equal.hosts[4]?.count(), 1);
	});
}

test('the next attempt starts with the address that greylisted', async t => {
	const addresses = Array.from({length: 4}, loopbackAddress);
	let known = false;
	const grey: FakeMxOptions = {
		rcpt: () => {
			const answer = known ? undefined : '451 4.7.1 Greylisting in action';
			known = true;
			return answer;
		},
	};
	const lab = await startLab(t, [{...grey, host: addresses[0] as string}], {idleMs: 0});
	const others = await startLab(
		t,
		addresses.slice(1).map(host => ({host, port: lab.hosts[0]?.port as number, rcpt: '451 4.7.1 Greylisted'})),
	);
	lab.dns.zone['mx0.example.test'] = {a: addresses};
	for (let n = 0; n < 8; n++) {
		known = false;
		const first = await lab.deliver({recipientId: `rcp_${n}`});
		const second = await lab.deliver({
			recipientId: `rcp_${n}`,
			attempt: 2,
			previousAttempts: toPreviousAttempts(1, first),
		});
		t.is(second.attempts[0]?.ip, first.attempts[0]?.ip);
	}

	t.true(others.hosts.some(({connections}) => connections.length > 0));
});

test('delivers by the second attempt if seven of a relay’s eight addresses refuse connections', async t => {
	const dead = Array.from({length: 7}, loopbackAddress);
	const probe = await startLab(t, [{}]);
	const [relay] = probe.hosts;
	const plain = {host: 'relay.test', secure: false, tls: 'none', user: null, password: null} as const;
	const relays = [{...plain, port: relay?.port ?? 0}];
	const lab = await startLab(t, [], {
		terms: {nextHop: {kind: 'relay', relays, acceptMeans: 'delivered'}},
		lookUp: async () => [...dead, relay?.host ?? ''],
	});
	await tries(lab, 2);
	t.is(relay?.count(), 1);
});

test('mail servers whose DNS lookup fails do not block those after them', async t => {
	const names = Array.from({length: 6}, (_, n) => `mx${n}.example.test`);
	for (const preference of [10, 0]) {
		const lab = await startLab(t, [{}], {
			zone: {
				'example.test': {mx: names.map((name, n) => [preference * n, name] as const)},
				...Object.fromEntries(names.map(name => [name, 'servfail' as const])),
			},
		});
		lab.dns.zone['mx5.example.test'] = {a: [lab.hosts[0]?.host ?? '']};
		await tries(lab, preference === 0 ? 20 : 3);
		t.is(lab.hosts[0]?.count(), 1);
	}
});

type Layout = ReadonlyArray<{readonly priority: number; readonly addresses: number}>;

/** DNS for a layout. The addresses are `8.8.<mail server>.<index>`. */
function dnsOf(layout: Layout): Resolver {
	const records: MxRecord[] = layout.map(({priority}, n) => ({exchange: `h${n}.test`, priority}));
	const found = <T>(all: readonly T[]): Promise<DnsAnswer<T>> => Promise.resolve({kind: 'found', records: all});
	return {
		mx: () => found(records),
		a: (name: string) => {
			const n = Number(/\d+/.exec(name)?.[0]);
			return found(Array.from({length: layout[n]?.addresses ?? 0}, (_, index) => `8.8.${n}.${index}`));
		},
		aaaa: () => Promise.resolve({kind: 'nodata'}),
	} as unknown as Resolver;
}

/** How a mail server fails in every attempt. */
const faults = {
	refused: {phase: 'connect', code: null},
	busy: {phase: 'mail', code: 451},
	grey: {phase: 'rcpt', code: 451},
} as const;

test('each attempt includes addresses of both families', async t => {
	const options: Parameters<typeof findMxHosts>[2] = {
		resolver: {
			...dnsOf([{priority: 10, addresses: 2}]),
			aaaa: () => Promise.resolve({kind: 'found', records: Array.from({length: 12}, (_, n) => `2a00::${n + 1}`)}),
		},
		families: {of: () => Promise.resolve({v4: true, v6: true})},
		...{port: 25, allowPrivateMx: false, ownAddresses: new Set()},
	};
	const previousAttempts: PreviousAttempt[] = [];
	for (let n = 1; n < 12; n++) {
		const hosts = (await findMxHosts(
			'example.test',
			{recipientId: 'rcp_1', terms: {sources: []}, previousAttempts},
			options,
		)) as Host[];
		t.is(hosts.length, 5);
		t.is(new Set(hosts.map(({address}) => address.includes(':'))).size, 2);
		previousAttempts.push(...hosts.map(({name: host, address}) => ({n, host, ip: address, ...faults.refused})));
	}

	t.is(new Set(previousAttempts.map(({ip}) => ip)).size, 14);
});

test('contacts every address of every mail server within as many attempts as there are addresses', async t => {
	const layout = fc.array(fc.record({priority: fc.nat(3), addresses: fc.integer({min: 1, max: 8})}), {
		minLength: 1,
		maxLength: 6,
	});
	const fault = fc.constantFrom(...Object.values(faults));
	await fc.assert(
		fc.asyncProperty(layout, fc.infiniteStream(fault), fc.string(), async (hosts, stream, recipientId) => {
			const options: Parameters<typeof findMxHosts>[2] = {
				resolver: dnsOf(hosts),
				families: {of: () => Promise.resolve({v4: true, v6: false})},
				...{port: 25, allowPrivateMx: false, ownAddresses: new Set()},
			};
			const says = new Map<string, (typeof faults)[keyof typeof faults]>();
			const seen = new Set<string>();
			const total = hosts.reduce((sum, {addresses}) => sum + addresses, 0);
			let previousAttempts: PreviousAttempt[] = [];
			for (let n = 1; n <= total && seen.size < total; n++) {
				const hosts = (await findMxHosts(
					'example.test',
					{recipientId, terms: {sources: []}, previousAttempts},
					options,
				)) as Host[];
				t.is(new Set(hosts.map(({address}) => address)).size, hosts.length);
				t.is(hosts.length, Math.min(5, total));
				let sessions = 0;
				for (const {name: host, address} of hosts) {
					const said = says.get(address) ?? (stream.next().value as (typeof faults)['busy']);
					says.set(address, said);
					seen.add(address);
					previousAttempts = [...previousAttempts, {n, host, ip: address, ...said}];
					sessions += said.phase === 'connect' ? 0 : 1;
					if (sessions === 2) {
						break;
					}
				}
			}

			t.is(seen.size, total, JSON.stringify({hosts, seen: [...seen]}));
		}),
		{numRuns: 300},
	);
});

test('defers if the message expires before the next mail server is contacted', async t => {
	for (const host of [{extensions: ['SIZE 10']}, {brokenTls: 'drop'}] as const) {
		let passed = 0;
		const clock = {now: () => Date.now() + passed, monotonic: () => performance.now()};
		const late = {
			ehlo: () => {
				passed = 3_600_000;
				return undefined;
			},
		};
		const lab = await startLab(t, [{...host, ...late}, {}], {clock});
		const {outcome, attempts} = await lab.deliver({endsAt: Date.now() + 600_000});
		t.like(outcome, {kind: 'deferred', category: 'network', reason: attempts[0]?.reply});
		t.is(lab.hosts[1]?.connections.length, 0);
	}
});
