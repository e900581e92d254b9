import test from 'ava';
import {acceptInbound} from '../../src/inbound/accept-inbound.ts';
import {precedence} from '../../src/mail/report.ts';
import {listUnread} from '../../src/resources/received/inbound-store.ts';
import {storeTest} from '../helpers/databases.ts';

const clock = {now: () => Date.UTC(2026, 10, 21, 10, 0, 0)};
const everything = {
	node: 'req_a',
	precedence: precedence.proven,
	perTurn: 1000,
	othersUntil: '9',
	maxRows: 100,
	maxBytes: 1e6,
};

function mail(text: string, ...rcptTo: string[]) {
	return {raw: Buffer.from(text, 'latin1'), source: 'smtp', mailFrom: '', rcptTo} as const;
}

storeTest(test, 'stores a message completely', async (t, store) => {
	const options = {writer: store.writer, node: 'req_a', clock};
	const raw = 'a\0b\xff\r\n'.repeat(100_000);
	const {id, isNew} = await acceptInbound(options, mail(raw, 'b@x.test', 'a@x.test'));
	t.true(isNew);
	const {messages} = await listUnread(store.reader, everything);
	t.is(messages.length, 1);
	const {raw: stored, digest, begun, ...cameIn} = messages[0] ?? {raw: Buffer.alloc(0), digest: '', begun: 1};
	t.true(Buffer.from(raw, 'latin1').equals(stored));
	t.regex(digest, /^[0-9a-f]{64}$/);
	t.is(begun, 0);
	t.deepEqual(cameIn, {
		id,
		source: 'smtp',
		mailFrom: '',
		rcptTo: ['b@x.test', 'a@x.test'],
		receivedAt: '2026-11-21T10:00:00.000Z',
	});
});

storeTest(
	test,
	'stores the same message for the same recipients once, in whatever order they are listed',
	async (t, store) => {
		const options = {writer: store.writer, node: 'req_a', clock};
		const all = await Promise.all([
			acceptInbound(options, mail('x', 'a@x.test', 'b@x.test')),
			acceptInbound(options, mail('x', 'b@x.test', 'a@x.test')),
			acceptInbound(options, mail('x', 'a@x.test')),
			acceptInbound(options, mail('y', 'a@x.test')),
		]);
		const again = await acceptInbound(options, mail('x', 'a@x.test'));
		t.deepEqual(
			[...all, again].map(({isNew}) => isNew),
			[true, false, true, true, false],
		);
		t.is(all[0]?.id, all[1]?.id);
		t.is(all[2]?.id, again.id);
		const {messages} = await listUnread(store.reader, everything);
		t.is(messages.length, 3);
		t.is(new Set(messages.map(({digest}) => digest)).size, 2);
	},
);

storeTest(test, 'stores nothing if the store cannot be written', async (t, store) => {
	const options = {writer: store.writer, node: 'req_a', clock};
	await store.database.raw('alter table inbound rename to away');
	await t.throwsAsync(acceptInbound(options, mail('x', 'a@x.test')));
	await store.database.raw('alter table away rename to inbound');
	t.true((await acceptInbound(options, mail('x', 'a@x.test'))).isNew);
});

storeTest(
	test,
	'lists its own messages at once, those of other nodes when they are old, up to the limit',
	async (t, store) => {
		const at = (minute: number) => ({now: () => Date.UTC(2026, 10, 21, 10, minute)});
		const take = async (node: string | null, minute: number, text: string) => {
			await acceptInbound({writer: store.writer, node, clock: at(minute)}, mail(text, 'a@x.test'));
		};
		await take('req_a', 5, 'own, new');
		await take('req_b', 1, 'other, old');
		await take('req_b', 4, 'other, new');
		await take(null, 0, 'nobody, old');
		const texts = async (query: Partial<typeof everything>) => {
			const {messages, hasMore} = await listUnread(store.reader, {
				...everything,
				othersUntil: '2026-11-21T10:02:00.000Z',
				...query,
			});
			return {texts: messages.map(({raw}) => raw.toString()), more: hasMore};
		};
		t.deepEqual(await texts({}), {texts: ['nobody, old', 'other, old', 'own, new'], more: false});
		t.deepEqual(await texts({maxBytes: 22}), {texts: ['nobody, old', 'other, old'].slice(0, 2), more: true});
		t.deepEqual(await texts({maxBytes: 1}), {texts: ['nobody, old'], more: true});
		t.deepEqual(await texts({maxRows: 2}), {texts: ['nobody, old', 'other, old'], more: true});
		t.is((await texts({precedence: precedence.proven, perTurn: 1000, othersUntil: '9'})).texts.length, 4);
	},
);
