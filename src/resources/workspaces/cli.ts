import {setTimeout as sleep} from 'node:timers/promises';
import {CliError} from '../../cli/fault.ts';
import {addFieldOptions, fieldRows, readFieldOptions} from '../../cli/field-options.ts';
import {readSecret} from '../../cli/files.ts';
import {acceptNoneOrDefault, changesIn, none, orNull, route} from '../../cli/options.ts';
import type {CliCommand} from '../../cli/program.ts';
import {readDaemons, resolveWorkspace, type Session} from '../../cli/session.ts';
import {fields, grouped, type Noun, shortTime} from '../../cli/terminal-text.ts';
import {isMailable} from '../../config/derive.ts';
import {capturedFolder, removeCaptured} from '../../deliver/local-delivery.ts';
import {takeSteps} from '../../kit/steps.ts';
import {hasPassword} from '../../mail/route.ts';
import {defaultLimits, limitNames, limitWords, readLimits} from '../../mail/workspace-limits.ts';
import {openDataDir, writeUsedWorkspace} from '../../store/data-folder/data-dir.ts';
import type {Vault} from '../../store/sealed.ts';
import {listFields} from '../fields.ts';
import {createRemoval, deleteWorkspace} from './delete-workspace.ts';
import {readReputation, reputationFields, reputationView} from './reputation-cli.ts';
import {
	changeWorkspace,
	checkDefaultTopic,
	checkRetention,
	createWorkspace,
	pauseByInstallation,
	resumeByInstallation,
	type WorkspaceInput,
} from './rules.ts';
import {pauseInput, settingsSchema, toSettings, type WorkspaceFields, workspaceInput} from './settings.ts';
import {hasWorkspace, listWorkspaces, type Workspace} from './store.ts';

const settingFields = listFields(workspaceInput);
/** A new workspace has no topics yet. */
const createFields = settingFields.filter(({name}) => name !== 'default_topic');
const updateFields = settingFields.map(field => ({...field, isRequired: false}));
const shownFields = listFields(settingsSchema);

const parseRoute = acceptNoneOrDefault(route);
const parsers = {
	// A password in a URL may come from standard input, so that it does not appear in the list of processes.
	route: (text: string) => (text === '-' ? text : parseRoute(text)),
	// An empty text clears the topic too. Whether the topic exists is checked later, in the store.
	default_topic: (text: string) => (text === '' ? none : text),
};

export function workspaceCommands(workspace: CliCommand): void {
	addFieldOptions(
		workspace.verb('create', 'Create a workspace').sample('mailctl workspace create --name acme'),
		createFields,
		parsers,
	).does<{name: string}>(create, {makesStore: () => true});

	workspace
		.verb('list', 'List workspaces, newest first')
		.sample('mailctl workspace list')
		.does(async session => {
			const rows = await listWorkspaces(await session.reader());
			session.list(workspacesWith((await session.workspaceInUse())?.id), rows);
		});

	workspace
		.verb('show [workspace]', 'Show a workspace')
		.sample('mailctl workspace show acme')
		.does<object, [string | undefined]>(async (session, _options, key) => {
			await showWorkspace(session, await chosen(session, key));
		});

	workspace
		.verb('use <workspace>', 'Set the default workspace of commands, stored in the data folder')
		.sample('mailctl workspace use acme')
		.does<object, [string]>(use);

	addFieldOptions(
		workspace
			.verb('update [workspace]', 'Change a workspace; the value none or default clears a setting')
			.sample('mailctl workspace update acme --monthly-quota 50000'),
		updateFields,
		parsers,
	).does<object, [string | undefined]>(update);

	addFieldOptions(
		workspace
			.verb('pause [workspace]', 'Pause a workspace: refuse sends and hold queued messages')
			.sample('mailctl workspace pause acme --reason "under review"'),
		listFields(pauseInput),
	).does<{reason: string}, [string | undefined]>(async (session, {reason}, key) => {
		const row = await chosen(session, key);
		await showWorkspace(session, await session.write(trx => pauseByInstallation(trx, session.tools, row, reason)));
	});

	workspace
		.verb('resume [workspace]', 'Resume a workspace, including held messages; its reputation figures start over')
		.sample('mailctl workspace resume acme')
		.does<object, [string | undefined]>(resume);

	deleteVerb(workspace);
}

async function create(session: Session, options: {name: string}): Promise<void> {
	const {name} = options;
	const input = await readInput(session, options);
	const created = await session.write(trx => createWorkspace(trx, session.tools, {...input, name}));
	await showWorkspace(session, created ?? nameTaken(name));
}

async function use(session: Session, _options: object, key: string): Promise<void> {
	const {id, name} = await chosen(session, key);
	const {dataDir, workspace: configured} = session.storeSettings();
	// With PostgreSQL, the data folder may not exist yet.
	openDataDir({dataDir, asRoot: true});
	writeUsedWorkspace(dataDir, id);
	if (configured !== null && configured !== id && configured !== name) {
		session.terminal.warn(`mailctl: MAILCTL_WORKSPACE is ${configured} and takes precedence, unset it`);
	}
	session.show({id, name}, () => [`${name} (${id}) is now the default workspace of commands`]);
}

async function update(session: Session, options: object, key: string | undefined): Promise<void> {
	const input = changesIn(await readInput(session, options));
	const {id} = await chosen(session, key);
	await checkDefaultTopic(await session.reader(), id, input);
	const changed = await session.write(trx => changeWorkspace(trx, session.tools, id, input));
	await showWorkspace(session, changed ?? nameTaken(input.name));
}

async function resume(session: Session, _options: object, key: string | undefined): Promise<void> {
	const before = await chosen(session, key);
	const after = await session.write(trx => resumeByInstallation(trx, session.tools, before.id));
	if (after.reputation_since === before.reputation_since) {
		session.terminal.warn(`mailctl: ${after.name} is neither paused nor warned, nothing was changed`);
	}
	await showWorkspace(session, after);
}

async function readInput(session: Session, options: object): Promise<Partial<WorkspaceInput>> {
	const {route: option, ...input} = readFieldOptions<Partial<WorkspaceFields>>(settingFields, options);
	const route = option === '-' ? orNull(parseRoute(await readSecret('-'))) : option;
	checkPoolAndRoute(session, input.source_pool ?? null, route ?? null);
	if (input.retention_days || input.content_days) {
		checkRetention(input, session.settings().retentionDays);
	}
	return {
		...input,
		...(route !== undefined && {
			route: route === null ? null : {text: route, vault: await vaultFor(session, route)},
		}),
	};
}

/** Checks a pool and a route, because one that the settings do not support would be silently ignored. */
export function checkPoolAndRoute(session: Session, pool: string | null, route: string | null): void {
	if (pool === null && route === null) {
		return;
	}
	const settings = session.settings();
	const pools = settings.sourcePools.map(({name}) => name);
	if (pool !== null && !pools.includes(pool)) {
		const fix = pools.length > 0 ? `use ${pools.join(', ')}` : 'add it there';
		throw new CliError('data', `pool ${pool} not found in MAILCTL_SOURCE_POOLS`, fix);
	}
	if (route === 'relay' && settings.relays.length === 0) {
		const fix = 'set it, or use the URL of the relay itself';
		throw new CliError('data', 'the route relay needs MAILCTL_RELAY_URL', fix);
	}
	if (route === 'mx' && !isMailable(settings.returnPathDomain)) {
		const wrong = `the route mx needs a return-path domain that other servers can reach, but it is ${settings.returnPathDomain}`;
		throw new CliError('data', wrong, 'set MAILCTL_RETURN_PATH_DOMAIN');
	}
}

/** Returns the vault, but reads the keys only if there is a password to encrypt. */
async function vaultFor(session: Session, route: string): Promise<Pick<Vault, 'seal'>> {
	return hasPassword(route) ? await session.vault() : {seal: (_owner, plain) => plain};
}

function nameTaken(name: string | undefined): never {
	throw new CliError('data', `a workspace ${name} already exists`, 'choose another name');
}

/** Finds the workspace of the argument, by id or name, or else that of `--workspace`, or else the default one. */
async function chosen(session: Session, key: string | undefined): Promise<Workspace> {
	return key === undefined ? await session.workspace() : await resolveWorkspace(await session.reader(), key);
}

/** The noun for workspaces. It marks the one that commands use by default. */
export const workspacesWith = (inUse: string | undefined): Noun<Workspace> => ({
	none: 'no workspaces; create one with mailctl workspace create',
	json: view,
	fields: [
		{title: 'ID', cell: row => row.id, id: true},
		{title: 'NAME', cell: row => row.name, cut: true},
		{title: 'IN USE', cell: row => (row.id === inUse ? 'yes' : '')},
		{title: 'QUOTA', cell: row => row.monthly_quota, right: true},
		{title: 'PAUSED', cell: row => (row.paused_at ? (row.pause_reason ?? 'yes') : 'no'), cut: true},
	],
});

function view(row: Workspace) {
	return {
		id: row.id,
		name: row.name,
		...toSettings(row),
		limits: readLimits(row.limits),
		paused: row.paused_at !== null,
		paused_at: row.paused_at,
		pause_reason: row.pause_reason,
		created_at: row.created_at,
	};
}

/** Shows a workspace with its reputation. */
export async function showWorkspace(session: Session, row: Workspace): Promise<void> {
	const reputation = await readReputation(session, row.id);
	const inUse = (await session.workspaceInUse())?.id;
	session.show({...view(row), reputation: reputationView(reputation)}, () =>
		fields(
			[
				['id', row.id],
				['name', row.name],
				['in use', row.id === inUse ? 'as the default of commands' : undefined],
				...fieldRows(shownFields, toSettings(row)),
				['limits', limitsText(row)],
				['paused', row.paused_at && `since ${shortTime(row.paused_at)} UTC`],
				['  reason', row.pause_reason ?? undefined],
				['  resume', row.paused_at === null ? undefined : `mailctl workspace resume ${toArgument(row)}`],
				...reputationFields(reputation),
				['created', `${shortTime(row.created_at)} UTC`],
			],
			session.terminal.width,
		),
	);
}

/** Describes the limits that differ from their defaults. */
function limitsText({limits}: Workspace): string {
	const values = readLimits(limits);
	const changed = limitNames.filter(name => values[name] !== defaultLimits[name]);
	return changed.map(name => `${limitWords(name)} ${grouped(values[name])}`).join(', ') || 'defaults';
}

/** Returns the name, or the id if a shell would not read the name as one word. */
const toArgument = ({id, name}: Workspace) => (/^[\w.-]+$/.test(name) ? name : id);

/** A daemon checks for changes every half second, so it has noticed a deletion after this time. */
const noticeMs = 1500;

export function deleteVerb(workspace: CliCommand): void {
	workspace
		.verb('delete <workspace>', 'Delete a workspace and everything in it; refused while messages wait')
		.sample('mailctl workspace delete acme --yes')
		.yesOption()
		.does(remove);
}

/** Throws unavailable (69) while messages are waiting. `--json` prints `{"id","name","deleted":true,"messages"}`. */
async function remove(session: Session, {yes}: {yes?: boolean}, key: string): Promise<void> {
	const workspace = await resolveWorkspace(await session.reader(), key);
	const {id, name} = workspace;
	const question = `Delete the workspace ${name} with its messages, templates, senders, keys and suppressions, permanently?`;
	await session.confirm(question, yes);
	const folder = capturedFolder(session.settings().dataDir);
	const {isRunning} = await readDaemons(session);
	const store = await session.store();
	const deleted = await deleteWorkspace({store, tools: session.tools}, workspace);
	if (deleted.kind === 'waiting') {
		const dropCommand = `mailctl queue drop --older-than 0s --workspace ${id} --yes`;
		const wrong = `${name} has messages in the queue (recipients: ${grouped(deleted.recipients)})`;
		throw new CliError('unavailable', wrong, `wait until they are sent, or drop them with ${dropCommand}`);
	}
	if (isRunning) {
		await sleep(noticeMs);
	} else {
		const {clock} = session.tools;
		const progress = session.progress('messages');
		const onStep = (messages: number) => progress.show(messages, messages / Math.max(1, deleted.messages));
		const removal = createRemoval({store, clock, removeCaptured: ids => removeCaptured(folder, ids), onStep});
		await takeSteps(removal, clock);
		progress.end();
	}
	const isLast = !(await hasWorkspace(await session.reader()));
	session.show({id, name, deleted: true, messages: deleted.messages}, () => [
		`deleted ${name} with ${grouped(deleted.messages)} messages`,
		...(isRunning ? ['They can no longer be read; the daemon removes them from the store.'] : []),
		...(isLast ? ['It was the last workspace: the next start of the daemon creates a new one with new keys.'] : []),
	]);
}
