import {readdirSync, readFileSync} from 'node:fs';
import path from 'node:path';
import test from 'ava';
import type {TSchema} from 'typebox';
import type {Operation} from '../../src/resources/operation.ts';

const root = 'src/resources';
const files = readdirSync(root, {recursive: true, encoding: 'utf8'}).filter(file => file.endsWith('.ts'));
const faceFiles = {
	api: /(?:^|-)api\.ts$/,
	cli: /(?:^|-)cli\.ts$/,
	dashboard: /(?:^|-)page\.ts$/,
	apply: /^apply\.ts$/,
} as const;
type Face = keyof typeof faceFiles;

const textOf = (face: RegExp) =>
	files
		.filter(file => face.test(path.basename(file)))
		.map(file => readFileSync(path.join(root, file), 'utf8'))
		.join('\n');
const texts = Object.entries(faceFiles).map(([face, names]) => [face as Face, textOf(names)] as const);

type Defined = {readonly definition: Operation<TSchema, unknown>; readonly faces: readonly Face[]};

/** Every operation of src/resources with the faces that use it. */
async function allOperations(): Promise<Defined[]> {
	const rules = files.filter(file => path.basename(file) === 'rules.ts');
	const found = await Promise.all(
		rules.map(async file => {
			const module: Record<string, unknown> = await import(`../../src/resources/${file.replace('.ts', '.js')}`);
			return Object.entries(module).flatMap(([name, value]) => {
				const definition = value as Defined['definition'] | undefined;
				const offered = texts
					.filter(([, text]) => new RegExp(`\\b${name}\\b`).test(text))
					.map(([face]) => face);
				return definition?.audit === undefined ? [] : [{definition, faces: offered}];
			});
		}),
	);
	return found.flat().toSorted((a, b) => (a.definition.name < b.definition.name ? -1 : 1));
}

test('lists faces, scope, role, audit and refresh of every operation', async t => {
	const lines = (await allOperations()).map(({definition, faces}) => {
		const {name, scope = '–', role, everywhere, fresh, audit} = definition;
		const user = `${role}${everywhere ? ' of all workspaces' : ''}${fresh ? ', fresh log-in' : ''}`;
		const isCached = 'run' in definition && definition.refreshes !== false;
		return [name, faces.join(' '), scope, user, audit, isCached ? 'caches read again' : 'not cached'].join(' | ');
	});
	t.deepEqual(lines, [
		'alert add | api cli dashboard | alerts:manage | admin, fresh log-in | alert.added | not cached',
		'alert add | cli | – | admin of all workspaces | alert.added | not cached',
		'alert mute | api cli dashboard | alerts:manage | admin | alert.muted | not cached',
		'alert remove | api cli dashboard | alerts:manage | admin, fresh log-in | alert.removed | not cached',
		'alert test | api cli dashboard | alerts:manage | admin | alert.tested | not cached',
		'alert verify | cli | – | admin of all workspaces | alert.verified | not cached',
		'certificate renew | cli | – | admin of all workspaces | certificate.renewal_requested | caches read again',
		'contact preferences-link | api cli dashboard | contacts:manage | operator | contact.linked | not cached',
		'contact update | api cli dashboard | contacts:manage | operator | contact.updated | not cached',
		'inbound add | api cli dashboard | received:manage | admin | inbound.added | caches read again',
		'inbound remove | api cli dashboard | received:manage | admin | inbound.removed | caches read again',
		'key change | apply | – | admin, fresh log-in | key.updated | caches read again',
		'key create | cli dashboard apply | – | admin, fresh log-in | key.created | caches read again',
		'key revoke | cli dashboard apply | – | admin, fresh log-in | key.revoked | caches read again',
		'key rotate | cli dashboard | – | admin, fresh log-in | key.rotated | caches read again',
		'layout remove | api dashboard | templates:manage | operator | layout.removed | caches read again',
		'message cancel | api cli dashboard | messages:send | operator | message.cancelled | not cached',
		'message reschedule | api cli dashboard | messages:send | operator | message.rescheduled | not cached',
		'received delete | api dashboard | received:manage | operator | received.deleted | not cached',
		'smarthost add | api cli dashboard | smarthosts:manage | admin, fresh log-in | smarthost.added | caches read again',
		'smarthost remove | api cli dashboard | smarthosts:manage | admin, fresh log-in | smarthost.removed | caches read again',
		'smarthost rotate | api cli dashboard | smarthosts:manage | admin, fresh log-in | smarthost.rotated | caches read again',
		'suppression add | api cli dashboard | suppressions:manage | operator | suppression.added | not cached',
		'suppression remove | api cli dashboard | suppressions:manage | operator | suppression.removed | not cached',
		'template create | api cli dashboard | templates:manage | operator | template.created | caches read again',
		'template delete | api cli dashboard | templates:manage | operator, fresh log-in | template.deleted | caches read again',
		'template rollback | cli dashboard | – | operator | template.rolled_back | caches read again',
		'template update | api cli dashboard | templates:manage | operator | template.updated | caches read again',
		'topic create | api cli dashboard apply | unsubscribe_groups:manage | operator | topic.created | caches read again',
		'topic purge | cli dashboard | – | operator, fresh log-in | topic.purged | not cached',
		'topic remove | api cli dashboard apply | unsubscribe_groups:manage | operator | topic.removed | caches read again',
		'topic update | cli dashboard apply | – | operator | topic.updated | caches read again',
	]);
});

test('documents in one line why a face lacks an operation', async t => {
	for (const {definition, faces} of await allOperations()) {
		const {name, without = {}, scope} = definition;
		t.deepEqual([...faces, ...Object.keys(without)].toSorted(), Object.keys(faceFiles).toSorted(), name);
		t.is(faces.includes('api'), scope !== undefined, `${name}: a scope is for the API`);
		t.true(
			Object.values(without).every(why => /^.{10,100}$/.test(why)),
			name,
		);
	}
});

/** What is not an operation yet records its own acts. */
const recordsItself = new Set(['operation.ts', 'webhooks/rules.ts', 'workspaces/rules.ts']);

test('records acts only in operation.ts', t => {
	for (const file of files.filter(name => path.basename(name) === 'rules.ts' && !recordsItself.has(name))) {
		t.notRegex(readFileSync(path.join(root, file), 'utf8'), /bumpGeneration/, file);
	}
});
