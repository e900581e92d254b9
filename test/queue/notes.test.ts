import test from 'ava';
import type {Route} from '../../src/mail/route.ts';
import {QueueNotes} from '../../src/queue/notes.ts';
import {newSite} from '../../src/queue/pace/site-state.ts';
import {createSite, type DestinationQueue, newQueue} from '../../src/queue/site.ts';
import type {QueueWaitNote} from '../../src/store/queue/open-recipients.ts';
import {routeTo} from '../helpers/routes.ts';

const moment = {now: Date.parse('2026-06-09T10:15:30Z'), monotonic: 100_000};

/** A queue with mail that has just come due. */
function queueAt(destination: string, changes: Partial<DestinationQueue> = {}): DestinationQueue {
	const route = routeTo(`mx.${destination}`);
	const site = createSite(route, newSite(route.pace), false);
	const placed = {own: route, route, site, foundAt: moment.monotonic};
	return {
		...newQueue({destination, workspaceId: 'ws_1'}),
		state: 'ready',
		placed,
		since: moment.monotonic,
		...changes,
	};
}

function notesOf(waiting: () => Iterable<DestinationQueue>) {
	const written: QueueWaitNote[] = [];
	const notes = new QueueNotes({
		queues: {waiting},
		maxInFlight: 64,
		noteSites: async () => {},
		noteWaits: async note => void written.push(note),
		moment: () => moment,
	});
	return {notes, written};
}

async function noted(...queues: DestinationQueue[]) {
	const {notes, written} = notesOf(() => queues);
	await notes.write();
	return written.flatMap(({rows}) => rows);
}

test('reports that due mail waits only if its queue stands still for a while', async t => {
	const left = queueAt('left.test');
	Object.assign(left.placed?.site.state ?? {}, {
		backoff: {until: moment.monotonic + 60_000, step: 1, reason: 'connect ETIMEDOUT', waitsFor: 'suspension'},
	});
	const rows = await noted(queueAt('soon.test'), queueAt('long.test', {since: moment.monotonic - 3000}), left);
	t.deepEqual(
		rows.map(({destination, site, reason, until}) => [destination, site, reason.code, until]),
		[
			['long.test', 'mx.long.test', 'turn', null],
			['left.test', 'mx.left.test', 'suspension', '2026-06-09T10:16:30.000Z'],
		],
	);
});

test('reports the daily limit of a new source, which may be zero', async t => {
	const warmUp: Route['warmUp'] = {source: '192.0.2.1', group: 'big', perDay: 0, overflow: null};
	const [before] = await noted(queueAt('a.test', {state: 'spent', spent: warmUp}));
	t.deepEqual(before?.reason, {code: 'warm_up', source: '192.0.2.1', group: 'big', perDay: 0});
	const [spent] = await noted(queueAt('a.test', {state: 'spent', spent: {...warmUp, perDay: 50}}));
	t.deepEqual(spent?.reason, {code: 'warm_up', source: '192.0.2.1', group: 'big', perDay: 50});
});

test('reports that mail due later waits for its suspended provider, until the suspension ends', async t => {
	const queue = queueAt('left.test');
	const {site} = queue.placed as NonNullable<DestinationQueue['placed']>;
	Object.assign(queue, {state: 'idle', placed: null, restsAt: site, at: moment.now + 20_000});
	site.state.backoff = {until: moment.monotonic + 60_000, step: 1, reason: '535 no', waitsFor: 'route', advice: null};
	let waiting = [queue];
	const {notes, written} = notesOf(() => waiting);
	await notes.write();
	const reason = {code: 'route', reply: '535 no', probing: false};
	t.like(written[0]?.rows, [{site: 'mx.left.test', reason, until: '2026-06-09T10:16:30.000Z'}]);
	await notes.write();
	t.is(written.length, 1, 'nothing changed');
	waiting = [];
	await notes.write();
	t.like(written[1]?.ended, [{destination: 'left.test', workspaceId: 'ws_1'}]);
});
