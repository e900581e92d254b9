import assert from 'node:assert/strict';
import test from 'ava';
import fc from 'fast-check';
import {evenPart, NodeShares, termMs} from '../../src/queue/node-shares.ts';
import {connectionsOf, mailsAllowed, newSite, spend} from '../../src/queue/pace/site-state.ts';
import {createSite, type Site} from '../../src/queue/site.ts';
import type {NodeTerm} from '../../src/store/queue/sites.ts';
import {routeTo} from '../helpers/routes.ts';

const minute = 60_000;
const names = ['a', 'b', 'c', 'd', 'e'];

test('parts are even, add up to the limit, and only grow when another node leaves', t => {
	fc.assert(
		fc.property(
			fc.nat(100),
			fc.uniqueArray(fc.constantFrom(...names), {minLength: 1}),
			fc.domain(),
			(cap, nodes, site) => {
				const parts = nodes.map(node => evenPart(cap, nodes, node, site));
				t.is(
					parts.reduce((sum, part) => sum + part, 0),
					cap,
				);
				t.true(Math.max(...parts) - Math.min(...parts) <= 1);
				const [gone, ...left] = nodes;
				t.is(evenPart(cap, left, gone as string, site), 0, 'who is not among them has nothing');
				t.true(left.every(node => evenPart(cap, left, node, site) >= evenPart(cap, nodes, node, site)));
			},
		),
	);
});

test('spreads the providers that allow only one connection evenly over the nodes', t => {
	const having = (node: string) =>
		Array.from({length: 300}, (_, n) => evenPart(1, ['a', 'b', 'c'], node, `mx${n}.example`)).filter(
			part => part === 1,
		);
	for (const node of ['a', 'b', 'c']) {
		t.true(having(node).length > 60, `${node} has ${having(node).length}`);
	}
});

/** Limits on connections and messages per minute. */
const caps = [
	[1, null],
	[4, null],
	[7, 5],
	[20, 300],
] as const;

/** A node and the providers that it sends to. Its process can be killed, hang or be cut off from the store. */
class ModelNode {
	readonly id: string;
	readonly cluster: Cluster;
	readonly shares: NodeShares;
	readonly sites: readonly Site[];
	readonly open = new Map<Site, number>();
	state: 'well' | 'hung' | 'cut off' | 'killed' = 'well';

	constructor(id: string, cluster: Cluster) {
		this.id = id;
		this.cluster = cluster;
		this.shares = new NodeShares({
			node: id,
			renewTerm: async choose => cluster.renew(this, choose),
			readPauses: async () => new Map(),
			countConnections: async () => new Map(this.sites.map(site => [site.name, this.openTo(site)])),
			moment: () => ({now: cluster.now, monotonic: cluster.now}),
			maxWait: () => minute,
			observer: {storeFailed: () => undefined},
		});
		this.sites = caps.map(([connections, perMinute], n) => {
			const route = routeTo(`mx${n}.example`, {connections, startConnections: connections, perMinute});
			const site = createSite(route, newSite(route.pace, this.shares.newShare(route.site)), false);
			site.state.connections = connections;
			return site;
		});
		this.shares.join({
			sites: () => this.sites,
			find: name => this.sites.find(site => site.name === name),
			regrade: (site, how) => how(site.state),
			leave: () => undefined,
			rescan: () => undefined,
		});
	}

	openTo(site: Site): number {
		return this.open.get(site) ?? 0;
	}

	may(site: Site): number {
		return this.state === 'killed' || this.state === 'hung' ? 0 : connectionsOf(site.state, this.cluster.now);
	}

	/** Starts all the messages that it may, which take an unknown time. */
	use(): void {
		for (const site of this.state === 'well' ? this.sites : []) {
			const free = this.may(site) - this.openTo(site);
			const mails = Math.min(free, mailsAllowed(site.state, this.cluster.now));
			if (mails > 0) {
				spend(site.state, mails, this.cluster.now);
				this.open.set(site, this.openTo(site) + mails);
				this.cluster.sent.push({site: site.name, mails, at: this.cluster.now});
			}
		}
	}

	/** Finishes one message at each provider. */
	end(): void {
		for (const site of this.state === 'hung' ? [] : this.sites) {
			this.open.set(site, Math.max(0, this.openTo(site) - 1));
		}
	}

	kill(): void {
		this.state = 'killed';
		this.open.clear();
	}
}

class Cluster {
	now = 0;
	readonly nodes: ModelNode[] = [];
	readonly sent: Array<{site: string; mails: number; at: number}> = [];
	readonly #terms = new Map<string, {until: number; knows: string | null}>();

	join(): ModelNode {
		const node = new ModelNode(`node${this.nodes.length}`, this);
		this.nodes.push(node);
		return node;
	}

	/** Works like `renewTerm` of the store: a node that hangs still has its connection to the server. */
	renew(self: ModelNode, choose: (terms: readonly NodeTerm[]) => string): readonly NodeTerm[] {
		if (self.state === 'cut off') {
			throw new Error('no answer');
		}
		for (const [id, {until}] of this.#terms) {
			if (id !== self.id && until <= this.now && this.nodes.find(node => node.id === id)?.state !== 'hung') {
				this.#terms.delete(id);
			}
		}
		const list = () => Array.from(this.#terms, ([node, {knows}]) => ({node, knows}));
		this.#terms.set(self.id, {until: this.now + termMs, knows: choose(list())});
		return list();
	}

	/** Starts or ends the term of a node of the previous version. */
	setFormer(isThere: boolean): void {
		this.#terms.delete('former');
		if (isThere) {
			this.#terms.set('former', {until: Number.POSITIVE_INFINITY, knows: null});
		}
	}

	/** Whether a node of the previous version may send, because no other node has a part. */
	get isFormerFree(): boolean {
		return (
			this.#terms.has('former') && [...this.#terms.values()].every(({knows}) => knows === null || knows === '')
		);
	}

	async pass(ms: number): Promise<void> {
		for (const end = this.now + ms; this.now < end; ) {
			this.now = Math.min(end, this.now + 100);
			for (const node of this.nodes.filter(({state}) => state === 'well' || state === 'cut off')) {
				node.shares.advance();
				// Attempts in progress finish before the server withdraws the term.
				if ((this.#terms.get(node.id)?.until ?? this.now) <= this.now + 100) {
					node.open.clear();
				}
			}
		}
	}

	/** The sum of what all nodes use or may use of each provider. */
	get sums(): number[] {
		return caps.map((_, n) =>
			this.nodes.reduce((sum, node) => {
				const site = node.sites[n] as Site;
				return sum + Math.max(node.openTo(site), node.may(site));
			}, 0),
		);
	}

	get maxPerMinute(): number[] {
		return caps.map((_, n) => {
			const sent = this.sent.filter(({site}) => site === `mx${n}.example`);
			const within = ({at}: {at: number}) => sent.filter(one => one.at >= at && one.at < at + minute);
			return Math.max(0, ...sent.map(one => within(one).reduce((sum, {mails}) => sum + mails, 0)));
		});
	}
}

const rare = ['kill', 'hang', 'wake', 'cut', 'mend', 'former'] as const;
const frequent = ['join', 'renew', 'renew', 'renew all', 'renew all', 'use', 'use', 'end'] as const;

async function perform(cluster: Cluster, step: (typeof rare | typeof frequent)[number], n: number): Promise<void> {
	const alive = cluster.nodes.filter(({state}) => state !== 'killed');
	const node = alive[n % Math.max(1, alive.length)];
	switch (step) {
		case 'join':
			await (alive.length < names.length && cluster.join().shares.renew());
			break;
		case 'kill':
			node?.kill();
			break;
		case 'hang':
		case 'cut':
			if (node?.state === 'well') {
				node.state = step === 'hang' ? 'hung' : 'cut off';
			}
			break;
		case 'wake':
		case 'mend':
			if (node) {
				node.state = 'well';
				node.shares.advance();
			}
			break;
		case 'former':
			cluster.setFormer(n % 2 === 0);
			break;
		case 'renew':
			await (node && node.state !== 'hung' && node.shares.renew());
			break;
		case 'renew all':
			for (const one of alive.filter(({state}) => state !== 'hung')) {
				await one.shares.renew();
			}
			break;
		case 'use':
			node?.use();
			break;
		case 'end':
			node?.end();
			break;
	}
}

test('nodes never exceed a provider’s limit together, whichever joins, dies, hangs or is cut off', async t => {
	const step = fc.oneof(
		{weight: 1, arbitrary: fc.constantFrom(...rare)},
		{weight: 4, arbitrary: fc.constantFrom(...frequent)},
	);
	const histories = fc.array(fc.tuple(step, fc.nat(9), fc.integer({min: 100, max: 1500})), {
		minLength: 30,
		maxLength: 200,
		size: 'max',
	});
	await fc.assert(
		fc.asyncProperty(histories, async history => {
			const cluster = new Cluster();
			for (const [step, n, ms] of history) {
				await cluster.pass(ms);
				await perform(cluster, step, n);
				for (const [index, sum] of cluster.sums.entries()) {
					const cap = cluster.isFormerFree ? 0 : (caps[index]?.[0] as number);
					assert.ok(sum <= cap, `${sum} of ${cap} after ${step}`);
				}
			}
			for (const [index, sent] of cluster.maxPerMinute.entries()) {
				assert.ok(sent <= (caps[index]?.[1] ?? Number.POSITIVE_INFINITY), `${sent} in a minute`);
			}
		}),
		{numRuns: 200},
	);
	t.pass();
});

/** Each node renews its term once a second, one after another. */
async function renewFor(cluster: Cluster, seconds: number): Promise<void> {
	for (let tenth = 0; tenth < 10 * seconds; tenth++) {
		await cluster.pass(100);
		for (const [index, node] of cluster.nodes.entries()) {
			await (node.state === 'well' && (tenth + 3 * index) % 10 === 0 && node.shares.renew());
		}
	}
}

test('redistributes the part of a killed node within ten seconds, and again once it is back', async t => {
	const cluster = new Cluster();
	const all = caps.map(([connections]) => connections);
	cluster.join();
	await renewFor(cluster, 1);
	t.deepEqual(cluster.sums, all, 'a node alone has everything');
	const second = cluster.join();
	cluster.join();
	await renewFor(cluster, 4);
	t.deepEqual(cluster.sums, all);
	t.true(cluster.nodes.every(node => node.may(node.sites[3] as Site) >= 6));
	second.kill();
	await renewFor(cluster, 9);
	t.deepEqual(cluster.sums, all);
	cluster.join();
	await renewFor(cluster, 4);
	t.deepEqual(cluster.sums, all);
});

test('a node that joins gets its part only once another has finished what exceeds its own', async t => {
	const cluster = new Cluster();
	const first = cluster.join();
	await renewFor(cluster, 1);
	first.use();
	const second = cluster.join();
	await renewFor(cluster, 5);
	const parts = () => second.sites.map(site => second.may(site));
	t.deepEqual(parts(), [0, 0, 0, 0]);
	for (let mail = 0; mail < 20; mail++) {
		first.end();
	}
	await renewFor(cluster, 3);
	t.deepEqual(parts().slice(1), [2, 7 - first.may(first.sites[2] as Site), 10]);
});

test('divides a provider’s rate, and a part grows a minute after the others last sent', async t => {
	const cluster = new Cluster();
	const [first, second] = [cluster.join(), cluster.join()];
	await renewFor(cluster, 70);
	const rate = (node: ModelNode) => node.sites[3]?.state.bucket?.perMinute;
	t.deepEqual([rate(first), rate(second)], [150, 150]);
	second.kill();
	await renewFor(cluster, 50);
	t.is(rate(first), 150);
	await renewFor(cluster, 30);
	t.is(rate(first), 300);
});

test('nodes get nothing while one of the previous version is alive, and everything afterwards', async t => {
	const cluster = new Cluster();
	const node = cluster.join();
	await renewFor(cluster, 1);
	node.use();
	cluster.setFormer(true);
	await renewFor(cluster, 3);
	t.false(cluster.isFormerFree, 'it still has sessions');
	for (let mail = 0; mail < 20; mail++) {
		node.end();
	}
	await renewFor(cluster, 2);
	t.true(cluster.isFormerFree);
	t.deepEqual(cluster.sums, [0, 0, 0, 0]);
	cluster.setFormer(false);
	await renewFor(cluster, 2);
	t.deepEqual(
		cluster.sums,
		caps.map(([connections]) => connections),
	);
});
