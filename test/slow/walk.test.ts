import test from 'ava';
import {storeTime} from '../../src/kit/time.ts';
import {insertMessages} from '../../src/store/messages.ts';
import {insertRecipients} from '../../src/store/recipients.ts';
import {startApi, type TestApi} from '../helpers/api.ts';
import {storeTest} from '../helpers/databases.ts';
import {newId} from '../helpers/workspace.ts';

type Page = {readonly data: ReadonlyArray<{readonly id: string}>; readonly next_cursor: string | null};

/** Accepted messages to `u0@…`, `u1@…` and so on, or with another prefix. */
async function insertMany({store, workspace}: TestApi, count: number, name = 'u'): Promise<string[]> {
	const createdAt = storeTime(Date.now());
	const ids = Array.from({length: count}, () => newId('msg'));
	const address = (index: number) => `${name}${index}@example.org`;
	for (let start = 0; start < count; start += 500) {
		const part = ids.slice(start, start + 500);
		await store.writer.transaction(async trx => {
			await insertMessages(
				trx,
				part.map((id, index) => ({
					...{id, workspaceId: workspace.id, mode: 'live', from: workspace.sender, fromKey: workspace.sender},
					...{to: address(start + index), toKey: address(start + index), replyTo: null, cc: null, data: null},
					...{templateId: workspace.templateId, versionId: workspace.versionId, metadata: null, tags: null},
					...{
						topicId: null,
						topicCode: null,
						locale: null,
						timezone: null,
						tracking: null,
						extras: null,
						sealed: null,
						resentFrom: null,
						attachments: 0,
						createdAt,
					},
				})),
			);
			await insertRecipients(
				trx,
				part.map((messageId, index) => ({
					...{
						id: newId('rcp'),
						workspace_id: workspace.id,
						message_id: messageId,
						role: 'to',
						destination: 'example.org',
					},
					...{address: address(start + index), address_key: address(start + index), state: 'accepted'},
					...{state_at: createdAt, next_attempt_at: createdAt},
				})),
			);
		});
	}
	return ids;
}

/** The ids of a list, page by page; `meanwhile` runs while each page is read. */
async function walk(api: TestApi, query: string, meanwhile = async () => {}): Promise<string[]> {
	const ids: string[] = [];
	let cursor: string | null = '';
	while (cursor !== null) {
		const [answer] = await Promise.all([
			api.get(`/v1/messages?${query}${cursor && `&cursor=${cursor}`}`),
			meanwhile(),
		]);
		if (answer.status !== 200) {
			throw new Error(`${answer.status} ${JSON.stringify(answer.body)}`);
		}
		const page = answer.body as Page;
		ids.push(...page.data.map(({id}) => id));
		cursor = page.next_cursor;
	}
	return ids;
}

const numbers = (count: number) => Array.from({length: count}, (_, index) => index);

storeTest(
	test,
	'lists 5,000 messages by cursor without duplicates or gaps while 2,000 arrive and 500 are erased',
	async (t, store) => {
		t.timeout(300_000);
		const api = await startApi(t, store);
		const {id: workspaceId, sender, templateId} = api.workspace;
		const ids = await insertMany(api, 5000);
		const people = numbers(250).map(index => ({contact: newId('con'), index: index * 20 + 7}));
		const removed = numbers(250).map(index => ids[index * 20 + 13] as string);
		const at = storeTime(Date.now());
		for (const {contact, index} of people) {
			const address = `u${index}@example.org`;
			await store.database('contacts').insert({
				...{
					id: contact,
					workspace_id: workspaceId,
					address,
					address_key: address,
					created_at: at,
					updated_at: at,
				},
			});
		}

		// The oldest go first, so that the walk meets the gaps; all is done before its last page.
		const [eraseNext, removeNext] = [people.values(), removed.values()];
		let arrived = 0;
		async function change(): Promise<void> {
			if (arrived < 2000) {
				arrived += 50;
				await insertMany(api, 50, `new${arrived}-`);
			}
			for (let n = 0; n < 6; n++) {
				const [person, message] = [eraseNext.next(), removeNext.next()];
				if (!person.done) {
					t.is((await api.remove(`/v1/contacts/${person.value.contact}`)).status, 204);
				}
				if (!message.done) {
					await store.writer.transaction(trx => trx('messages').where({id: message.value}).delete());
				}
			}
		}

		const isErased = new Set(people.map(({index}) => ids[index]));
		const isRemoved = new Set(removed);
		const stay = ids.filter(id => !isRemoved.has(id));
		const walks = [
			[await walk(api, 'limit=100'), ids],
			...(await Promise.all([
				walk(api, 'limit=100', change).then(seen => [seen, stay] as const),
				walk(api, `limit=37&from=${sender}&templateId=${templateId}&createdAfter=2020-01-01`).then(
					seen => [seen, stay] as const,
				),
				walk(api, 'limit=61&status=accepted').then(
					seen => [seen, stay.filter(id => !isErased.has(id))] as const,
				),
			])),
		] as const;
		for (const [seen, throughout] of walks) {
			const found = new Set(seen);
			t.is(found.size, seen.length, 'no duplicate');
			t.deepEqual(
				throughout.filter(id => !found.has(id)),
				[],
				'no hole',
			);
			t.deepEqual(seen, seen.toSorted().toReversed(), 'newest first');
		}

		t.is(arrived, 2000);
		t.is((await walk(api, 'limit=100')).length, 5000 + 2000 - 250);
		t.is((await walk(api, 'limit=100&status=accepted')).length, 5000 + 2000 - 500);
		t.is((await walk(api, 'limit=100&recipient=erased@erased.invalid')).length, 250);
		t.deepEqual(await walk(api, `recipient=u${people[0]?.index}@example.org`), []);
		t.deepEqual(api.reported, []);
	},
);
