import test from 'ava';
import {takeIn} from '../../src/inbound/take-in.ts';
import {precedence} from '../../src/mail/report.ts';
import {listUnread} from '../../src/store/inbound-mails.ts';
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
	const {id, isNew} = await takeIn(options, mail(raw, 'b@x.test', 'a@x.test'));
	t.true(isNew);
	const {mails} = await listUnread(store.reader, everything);
	t.is(mails.length, 1);
	const {raw: stored, digest, begun, ...cameIn} = mails[0] ?? {raw: Buffer.alloc(0), digest: '', begun: 1};
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
			takeIn(options, mail('x', 'a@x.test', 'b@x.test')),
			takeIn(options, mail('x', 'b@x.test', 'a@x.test')),
			takeIn(options, mail('x', 'a@x.test')),
			takeIn(options, mail('y', 'a@x.test')),
		]);
		const again = await takeIn(options, mail('x', 'a@x.test'));
		t.deepEqual(
			[...all, again].map(({isNew}) => isNew),
			[true, false, true, true, false],
		);
		t.is(all[0]?.id, all[1]?.id);
		t.is(all[2]?.id, again.id);
		const {mails} = await listUnread(store.reader, everything);
		t.is(mails.length, 3);
		t.is(new Set(mails.map(({digest}) => digest)).size, 2);
	},
);

storeTest(test, 'stores nothing if the store cannot be written', async (t, store) => {
	const options = {writer: store.writer, node: 'req_a', clock};
	await store.database.raw('alter table inbound rename to away');
	await t.throwsAsync(takeIn(options, mail('x', 'a@x.test')));
	await store.database.raw('alter table away rename to inbound');
	t.true((await takeIn(options, mail('x', 'a@x.test'))).isNew);
});

storeTest(
	test,
	'lists its own messages at once, those of other nodes when they are old, up to the limit',
	async (t, store) => {
		const at = (minute: number) => ({now: () => Date.UTC(2026, 10, 21, 10, minute)});
		const take = async (node: string | null, minute: number, text: string) => {
			await takeIn({writer: store.writer, node, clock: at(minute)}, mail(text, 'a@x.test'));
		};
		await take('req_a', 5, 'own, new');
		await take('req_b', 1, 'other, old');
		await take('req_b', 4, 'other, new');
		await take(null, 0, 'nobody, old');
		const texts = async (query: Partial<typeof everything>) => {
			const {mails, more} = await listUnread(store.reader, {
				...everything,
				othersUntil: '2026-11-21T10:02:00.000Z',
				...query,
			});
			return {texts: mails.map(({raw}) => raw.toString()), more};
		};
		t.deepEqual(await texts({}), {texts: ['nobody, old', 'other, old', 'own, new'], more: false});
		t.deepEqual(await texts({maxBytes: 22}), {texts: ['nobody, old', 'other, old'].slice(0, 2), more: true});
		t.deepEqual(await texts({maxBytes: 1}), {texts: ['nobody, old'], more: true});
		t.deepEqual(await texts({maxRows: 2}), {texts: ['nobody, old', 'other, old'], more: true});
		t.is((await texts({precedence: precedence.proven, perTurn: 1000, othersUntil: '9'})).texts.length, 4);
	},
);
