import test from 'ava';
import {storeTime} from '../../src/kit/time.ts';
import {readStream} from '../../src/store/event-stream.ts';
import {readLines} from '../../src/store/message-scan.ts';
import {createSettled, readEvents} from '../../src/store/timeline.ts';
import {engines, newStore} from '../helpers/databases.ts';
import {claimDue, endTry} from '../helpers/first-try.ts';
import {insertMessages, insertWorkspace, newId} from '../helpers/messages.ts';
import {changeRecipients} from '../helpers/recipient-rows.ts';

const at = storeTime(Date.now());

for (const engine of engines) {
	test(`events of an earlier version stay unchanged, and later ones follow them (${engine})`, async t => {
		const store = await newStore(t, engine);
		const {workspaceId} = await insertWorkspace(store);
		const [ended = ''] = await insertMessages(store, workspaceId, ['one@a.test']);
		const [waits = ''] = await insertMessages(store, workspaceId, ['two@b.test']);
		const former = [
			...(['accepted', 'queued', 'sent', 'delivered'] as const).map(type => [ended, type] as const),
			[waits, 'accepted'] as const,
		].map(([message, type]) => ({message, type, id: newId('evt')}));
		for (const [n, {message, type, id}] of former.entries()) {
			await store.database('events').insert({
				...{id, message_id: message, type, occurred_at: at, recorded_at: at},
				...(engine === 'sqlite' && {position: n + 1}),
			});
		}
		await (engine === 'sqlite' && store.database('changes').update({event_position: former.length}));
		await changeRecipients(store.database, all => all.where({message_id: ended}), {
			...{state: 'delivered', next_attempt_at: null},
		});
		const timeline = async (id: string) =>
			(await readEvents(store.reader, id, {after: null, limit: 9})).map(event => [event.id, event.type]);
		const formerOf = (id: string) => former.filter(({message}) => message === id).map(one => [one.id, one.type]);
		t.deepEqual(await timeline(ended), formerOf(ended));
		t.deepEqual(await timeline(waits), formerOf(waits));

		const boot = newId('req');
		const [recipient] = await claimDue({store, workspace: {id: workspaceId} as never}, boot, 'b.test');
		const during = await timeline(waits);
		t.deepEqual(during, [...formerOf(waits), [recipient?.queued, 'queued']]);
		t.like(await readLines(store.reader, [waits]), [{status: 'queued'}]);
		await (recipient && endTry(store, boot, recipient, {kind: 'delivered'}, at));
		const after = await timeline(waits);
		t.deepEqual(after.slice(0, 2), during);
		t.deepEqual(
			after.map(([, type]) => type),
			['accepted', 'queued', 'sent', 'delivered'],
		);
		const [second] = await readEvents(store.reader, waits, {after: former.at(-1)?.id ?? '', limit: 1});
		t.is(second?.type, 'queued');
		const upTo = await createSettled(store.reader)();
		const {events} = await readStream(store.reader, workspaceId, {after: 0, upTo});
		t.deepEqual(
			events.map(({id, type}) => [id, type]),
			[...formerOf(ended), ...after],
		);
		t.is(events.at(-1)?.position, former.length + 1);
	});
}
