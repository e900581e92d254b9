import {readdirSync, readFileSync} from 'node:fs';
import path from 'node:path';
import test from 'ava';
import Fastify from 'fastify';
import type {ApiParts} from '../../src/api/api-parts.ts';
import {apiRoutes} from '../../src/api/server.ts';
import {mailctl} from '../../src/cli/commands.ts';
import type {CliCommand} from '../../src/cli/program.ts';
import {Type} from '../../src/mail/type.ts';
import {nouns} from '../../src/resources/apply/document.ts';
import {type OperationContext, type OperationHead, performIn} from '../../src/resources/operation.ts';
import {noParts, routes} from '../helpers/dashboard-routes.ts';
import {everywhere, testTools} from '../helpers/tools.ts';

const root = 'src/resources';
const files = readdirSync(root, {recursive: true, encoding: 'utf8'}).filter(file => file.endsWith('.ts'));

type Definition = OperationHead & {readonly run?: unknown; readonly refreshes?: false};

const isOperation = (value: unknown): value is Definition => {
	const {name, role, audit, input} = Object(value) as Partial<Definition>;
	return [name, role, audit, input].every(part => part !== undefined);
};

/** Every operation that a file of src/resources exports. */
async function allOperations(): Promise<Definition[]> {
	const modules = await Promise.all(
		files.map(file => import(`../../src/resources/${file.replace('.ts', '.js')}`) as Promise<object>),
	);
	const operations = new Set(modules.flatMap(module => Object.values(module).filter(isOperation)));
	return [...operations].toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

/** The operations of the API: each route carries its own ones. */
async function apiOperations(): Promise<Set<OperationHead>> {
	const api = Fastify();
	const operations = new Set<OperationHead>();
	api.addHook('onRoute', ({config}) => {
		for (const operation of config?.operations ?? []) {
			operations.add(operation);
		}
	});
	for (const addRoutes of apiRoutes(noParts as unknown as ApiParts)) {
		addRoutes(api);
	}
	await api.close();
	return operations;
}

/** The commands by their names, such as `topic create`. An operation is named as its command. */
function commandNames(command: CliCommand, path = ''): string[] {
	return command.commands.flatMap(each => {
		const name = `${path}${each.name()}`;
		return [name, ...commandNames(each, `${name} `)];
	});
}

const faces = ['api', 'cli', 'dashboard', 'apply'] as const;
type Face = (typeof faces)[number];

/** Whether a face offers an operation, by the registry of the face. */
async function readFaces(): Promise<Record<Face, (operation: Definition) => boolean>> {
	const api = await apiOperations();
	const commands = new Set(commandNames(await mailctl()));
	const steps = new Set(nouns.flatMap(({operations = []}) => operations));
	const forms = new Set(routes.map(({operation}) => operation));
	return {
		api: operation => api.has(operation),
		// An option of a command may be an operation of its own: `domain rotate-key --cancel`.
		cli: ({name}) => commands.has(name.replace(/ --.*/, '')),
		dashboard: operation => forms.has(operation),
		apply: operation => steps.has(operation),
	};
}

type Offered = {readonly definition: Definition; readonly faces: readonly Face[]};

/** Every operation with the faces that offer it. */
async function offeredOperations(): Promise<Offered[]> {
	const offers = await readFaces();
	return (await allOperations()).map(definition => ({
		definition,
		faces: faces.filter(face => offers[face](definition)),
	}));
}

test('lists faces, scope, role, audit and refresh of every operation', async t => {
	const lines = (await offeredOperations()).map(({definition, faces}) => {
		const {name, scope = '–', role, everywhere, fresh, audit} = definition;
		const user = `${role}${everywhere ? ' of all workspaces' : ''}${fresh ? ', fresh log-in' : ''}`;
		const isCached = definition.run !== undefined && definition.refreshes !== false;
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
		'domain add | api cli dashboard apply | domains:manage | admin | domain.added | caches read again',
		'domain remove | api cli dashboard apply | domains:manage | admin, fresh log-in | domain.removed | caches read again',
		'domain rotate-key | api cli dashboard | domains:manage | admin, fresh log-in | domain.key_rotated | caches read again',
		'domain rotate-key --cancel | cli dashboard | – | admin, fresh log-in | domain.rotation_cancelled | caches read again',
		'domain update | api cli dashboard apply | domains:manage | admin | domain.updated | caches read again',
		'inbound add | api cli dashboard | received:manage | admin | inbound.added | caches read again',
		'inbound remove | api cli dashboard | received:manage | admin | inbound.removed | caches read again',
		'key change | apply | – | admin, fresh log-in | key.updated | caches read again',
		'key create | cli dashboard apply | – | admin, fresh log-in | key.created | caches read again',
		'key revoke | cli dashboard apply | – | admin, fresh log-in | key.revoked | caches read again',
		'key rotate | cli dashboard | – | admin, fresh log-in | key.rotated | caches read again',
		'layout remove | api dashboard | templates:manage | operator | layout.removed | caches read again',
		'message cancel | api cli dashboard | messages:send | operator | message.cancelled | not cached',
		'message reschedule | api cli dashboard | messages:send | operator | message.rescheduled | not cached',
		'queue resume | cli dashboard | – | operator of all workspaces | queue.resumed | caches read again',
		'queue suspend | cli dashboard | – | operator of all workspaces | queue.suspended | caches read again',
		'received delete | api dashboard | received:manage | operator | received.deleted | not cached',
		'sample remove | cli | – | admin | domain.removed | caches read again',
		'sender add | api cli dashboard apply | senders:manage | admin | sender.added | caches read again',
		'sender remove | api cli dashboard apply | senders:manage | admin, fresh log-in | sender.removed | caches read again',
		'sender update | api dashboard apply | senders:manage | admin | sender.renamed | caches read again',
		'sender verify | cli dashboard apply | – | admin of all workspaces | sender.verified | caches read again',
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
		'user add | cli dashboard | – | admin, fresh log-in | user.added | not cached',
		'user link | cli dashboard | – | admin, fresh log-in | user.linked | not cached',
		'user remove | cli dashboard | – | admin, fresh log-in | user.removed | not cached',
		'user update | dashboard | – | admin, fresh log-in | user.updated | not cached',
		'webhook add | api cli dashboard apply | webhooks:manage | admin, fresh log-in | webhook.created | not cached',
		'webhook change | api dashboard apply | webhooks:manage | admin | webhook.updated | caches read again',
		'webhook disable | api cli dashboard apply | webhooks:manage | admin | webhook.disabled | caches read again',
		'webhook enable | api cli dashboard apply | webhooks:manage | admin | webhook.enabled | caches read again',
		'webhook remove | api cli dashboard apply | webhooks:manage | admin, fresh log-in | webhook.removed | caches read again',
		'webhook replay | api cli dashboard | webhooks:manage | operator | webhook.replayed | caches read again',
		'webhook replay | cli dashboard | – | operator | webhook.replayed | not cached',
		'webhook rotate | api cli dashboard | webhooks:manage | admin, fresh log-in | webhook.rotated | caches read again',
	]);
});

/** What the table says of an operation and a face. In capitals: what is wrong. */
function verdict({definition: {without = {}, scope}, faces}: Offered, face: Face): string {
	const reason = without[face];
	const isOffered = faces.includes(face);
	if (isOffered && reason !== undefined) {
		return 'OFFERED, WITH A REASON';
	}
	if (face === 'api' && isOffered !== (scope !== undefined)) {
		return isOffered ? 'NO SCOPE' : 'SCOPE, BUT NO ROUTE';
	}
	if (isOffered) {
		return 'offered';
	}
	if (reason === undefined) {
		return 'MISSING';
	}
	return /^.{10,100}$/.test(reason) ? 'reason' : 'NO REASON IN ONE LINE';
}

const table = (rows: readonly (readonly string[])[]): string =>
	rows.map(([name = '', ...cells]) => [name.padEnd(30), ...cells.map(cell => cell.padEnd(10))].join(' ')).join('\n');

test('every face offers every operation, or the operation says in one line why not', async t => {
	const rows = (await offeredOperations()).map(each => [
		each.definition.name,
		...faces.map(face => verdict(each, face)),
	]);
	const wrong = rows.filter(([, ...verdicts]) => verdicts.some(each => each !== 'offered' && each !== 'reason'));
	t.deepEqual(wrong, [], `\n${table([['', ...faces], ...wrong])}`);
});

const isRules = (file: string): boolean => /(?:^|-)rules\.ts$/.test(path.basename(file));
/** What is not an operation yet records its own acts. */
const recordsItself = new Set(['operation.ts', 'webhooks/rules.ts', 'workspaces/rules.ts']);

test('records acts only in operation.ts', t => {
	for (const file of files.filter(name => isRules(name) && !recordsItself.has(name))) {
		t.notRegex(readFileSync(path.join(root, file), 'utf8'), /bumpGeneration/, file);
	}
});

test('an operation gets the vault only if it declares that it seals, so that the vault is open before', async t => {
	const sealing = {
		name: 'thing seal',
		role: 'admin',
		audit: 'thing.sealed',
		input: Type.Object({}),
		run: async ({vault}: OperationContext<null>) => (await vault()).seal('thing', 'text') !== 'text',
		entry: () => [],
	} as const;
	const context = {...everywhere(testTools()), trx: undefined as never};
	await t.throwsAsync(performIn(sealing, context, {}), {message: /^The operation thing seal uses the vault/});
	t.true(await performIn({...sealing, seals: true}, context, {}));
});
