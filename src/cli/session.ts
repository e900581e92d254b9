import {randomBytes} from 'node:crypto';
import {hostname} from 'node:os';
import {join} from 'node:path';
import {createInterface} from 'node:readline/promises';
import {setTimeout as sleep} from 'node:timers/promises';
import type {Knex} from 'knex';
import type {TSchema} from 'typebox';
import {ConfigError} from '../config/config-error.ts';
import {loadProcessSettings, processEnvironment, systemFile} from '../config/process-env.ts';
import type {LoadedSettings, Settings} from '../config/settings.ts';
import {type Clock, systemClock} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import {createIdSource, isId} from '../mail/ids.ts';
import type {ActTools, Operator} from '../mail/operator.ts';
import {createResolver} from '../net/resolver.ts';
import {type InputOf, type Operation, perform} from '../resources/operation.ts';
import {
	findIds,
	findWorkspace,
	findWorkspaceByName,
	listWorkspaces,
	type OwnedId,
	type OwnedKind,
	type Workspace,
} from '../resources/workspaces/store.ts';
import {readDaemonFile} from '../store/data-folder/daemon-file.ts';
import {
	lacksStore,
	openDataDir,
	readUsedWorkspace,
	refuseLostStore,
	usedWorkspaceFile,
} from '../store/data-folder/data-dir.ts';
import {readSecrets} from '../store/data-folder/open.ts';
import {isFolderLocked} from '../store/engine/sqlite.ts';
import type {Writer} from '../store/engine/writer.ts';
import {type Daemons, daemonsOfNodes, silentMs} from '../store/nodes.ts';
import {createVault, type MasterKeys, type Vault} from '../store/sealed.ts';
import type {Store} from '../store/store.ts';
import {CliError, userName} from './fault.ts';
import {missingStore, openStoreFor} from './open-store.ts';
import {Progress, Terminal} from './terminal.ts';
import {type Noun, toLines, toTable} from './terminal-text.ts';

/** Finds running daemons: with SQLite by the lock of the data folder, with PostgreSQL by the heartbeats of nodes. */
export async function readDaemons(session: Session): Promise<Daemons> {
	const {dataDir, databaseUrl} = session.storeSettings();
	const silentSince = storeTime(session.tools.clock.now() - silentMs);
	if (databaseUrl === null) {
		const isRunning = await isFolderLocked(join(dataDir, 'daemon.lock'));
		const roles = readDaemonFile(dataDir)?.roles ?? [];
		const isDelivering = isRunning && (roles.length === 0 || roles.includes('deliver'));
		return {isRunning, isDelivering, isAlive: () => isRunning, silentSince: isRunning ? null : silentSince};
	}
	return await daemonsOfNodes(await session.reader(), silentSince);
}

/** Opens a resolver for one command, with the name servers of the settings. */
export function openResolver(session: Session) {
	const {dnsServers: servers} = session.settings();
	return createResolver({servers, timeoutMs: 5000, tries: 1, clock: session.tools.clock});
}

export type Globals = {json?: boolean; wide?: boolean; workspace?: string; envFile?: string; asRoot?: boolean};

/** Returns the tools of an act: a clock, ids, random bytes, and the operator. */
export function createTools(clock: Clock, operator: Operator): ActTools {
	return {clock, newId: createIdSource(clock), random: randomBytes, operator};
}

/** The context of a verb. Settings and store are opened when they are first needed. */
export class Session {
	readonly terminal = new Terminal(process, processEnvironment());
	/** Whether --json is set; `show` checks it itself. */
	readonly json: boolean;
	// Becomes the store's clock once it is open: what is written must have the time that its daemons share.
	#clock: Clock = systemClock;
	/** Records changes as acts of the user who runs the command. */
	readonly tools = createTools({now: () => this.#clock.now(), monotonic: systemClock.monotonic}, operator());
	readonly #globals: Globals;
	readonly #makesStore: boolean;
	#settings: Settings | undefined;
	#storeSettings: Settings | undefined;
	#store: Promise<Store> | undefined;
	#secrets: Promise<MasterKeys> | undefined;
	/** The workspace of the last id that `idOf` found. */
	#workspaceOfId: string | undefined;

	/** With `makesStore`, a missing store is created. */
	constructor(globals: Globals, makesStore: boolean) {
		this.json = globals.json ?? false;
		this.#globals = globals;
		this.#makesStore = makesStore;
	}

	async close(): Promise<void> {
		await this.#store?.then(
			({close}) => close(),
			() => undefined,
		);
	}

	loadSettings(): LoadedSettings {
		return loadProcessSettings(this.#globals.envFile, {systemFile});
	}

	/** Returns the settings. Throws ConfigError with every problem. */
	settings(): Settings {
		if (this.#settings === undefined) {
			const loaded = loadProcessSettings(this.#globals.envFile, {isBesideDaemon: true, systemFile});
			if (!loaded.ok) {
				throw new ConfigError(loaded.problems);
			}
			this.#settings = loaded.settings;
		}
		return this.#settings;
	}

	/**
	 * Returns the settings after checking the data folder. Throws unavailable (69) if there is no store, unless the
	 * verb creates one.
	 */
	storeSettings(): Settings {
		this.#storeSettings ??= this.#folderSettings(false);
		return this.#storeSettings;
	}

	/** Returns the settings for a command that will replace the store in the data folder. */
	replacingSettings(): Settings {
		return this.#folderSettings(true);
	}

	/** Checks the data folder, but only with SQLite, which has its store and its secrets there. */
	#folderSettings(isReplacing: boolean): Settings {
		const settings = this.settings();
		const {databaseUrl, dataDir} = settings;
		if (databaseUrl === null) {
			if (!this.#makesStore && !isReplacing && lacksStore(dataDir)) {
				throw missingStore(settings);
			}
			openDataDir({dataDir, asRoot: this.#globals.asRoot ?? false});
			if (!isReplacing) {
				refuseLostStore(dataDir);
			}
		}
		return settings;
	}

	async store(): Promise<Store> {
		this.#store ??= openStoreFor(this.storeSettings(), {createIfEmpty: this.#makesStore}).then(opened => ({
			...opened,
			writer: pacedWriter(opened.writer),
		}));
		const store = await this.#store;
		this.#clock = store.clock;
		return store;
	}

	async reader(): Promise<Knex> {
		return (await this.store()).reader;
	}

	readonly write = async <Result>(work: (trx: Knex.Transaction) => Promise<Result>): Promise<Result> =>
		await (await this.store()).writer.transaction(work);

	/** Performs an operation in the selected workspace. Throws `Refused`. */
	async perform<Input extends TSchema, Result, Extra>(
		operation: Operation<Input, Result, string, Extra>,
		input: InputOf<Input> & Extra,
		onProgress?: (done: number) => void,
	): Promise<Result> {
		return await this.performIn((await this.workspace()).id, operation, input, onProgress);
	}

	/** Performs an operation in the workspace of `--workspace`, or without that option for the whole installation. */
	async performAnywhere<Input extends TSchema, Result>(
		operation: Operation<Input, Result, string | null>,
		input: InputOf<Input>,
	): Promise<Result> {
		return await this.performIn((await this.chosenWorkspace())?.id ?? null, operation, input);
	}

	/** Performs an operation in a workspace, or with `null` for the whole installation. */
	async performIn<Input extends TSchema, Result, Workspace extends string | null, Extra>(
		workspaceId: Workspace,
		operation: Operation<Input, Result, Workspace, Extra>,
		input: InputOf<Input> & Extra,
		onProgress?: (done: number) => void,
	): Promise<Result> {
		const {writer} = await this.store();
		const acting = {face: 'cli', mode: 'live', tools: this.tools, vault: () => this.vault()} as const;
		const context = {...acting, workspaceId, writer, change: writer.transaction, onProgress};
		return await perform(operation, context, input);
	}

	/** Returns the keys. Throws ConfigError if they are not the store's. */
	async secrets(): Promise<MasterKeys> {
		this.#secrets ??= this.store().then(store => readSecrets(store, this.storeSettings()));
		return await this.#secrets;
	}

	/** Returns the vault that encrypts and decrypts secrets of the store. */
	async vault(): Promise<Vault> {
		return createVault(await this.secrets());
	}

	/**
	 * Returns the workspace of the id that `idOf` found, of `--workspace`, MAILCTL_WORKSPACE or `workspace use`, or the
	 * only one.
	 */
	async workspace(): Promise<Workspace> {
		const selected =
			this.#workspaceOfId === undefined
				? await this.chosenWorkspace()
				: await findWorkspace(await this.reader(), this.#workspaceOfId);
		return selected ?? requireDefault(this.settings(), await this.#defaultWorkspace());
	}

	/** Returns what the queries of a verb need: the id of the workspace, and the reader. */
	async inWorkspace(): Promise<{readonly workspaceId: string; readonly reader: Knex}> {
		const {id: workspaceId} = await this.workspace();
		return {workspaceId, reader: await this.reader()};
	}

	/** Returns the default workspace, or `undefined` if verbs need `--workspace`. */
	async workspaceInUse(): Promise<Workspace | undefined> {
		return (await this.#defaultWorkspace()).row;
	}

	async #defaultWorkspace(): Promise<DefaultWorkspace> {
		return defaultWorkspace(this.settings(), await listWorkspaces(await this.reader()));
	}

	/** Returns the workspace of `--workspace`, or `undefined` for all workspaces. */
	async chosenWorkspace(): Promise<Workspace | undefined> {
		const {workspace} = this.#globals;
		return workspace === undefined ? undefined : await resolveWorkspace(await this.reader(), workspace);
	}

	/**
	 * Resolves an id or its unique prefix, in any workspace or in the one of `--workspace`. Returns `undefined` if no
	 * id matches, and throws a data error (65) if the prefix is ambiguous.
	 */
	async idOf(kind: OwnedKind, text: string): Promise<string | undefined> {
		if (!text.startsWith(`${kind}_`) || !/^[\w-]{1,80}$/.test(text)) {
			return undefined;
		}
		const workspaceId = (await this.chosenWorkspace())?.id;
		const ids = await findIds(await this.reader(), kind, {start: text, workspaceId, limit: maxListed});
		const match = await chooseId(text, ids, async () => (await this.workspaceInUse())?.id);
		this.#workspaceOfId = match?.workspace_id;
		return match?.id;
	}

	/** Prints a result: one JSON document with `--json`, else lines for people. */
	show(json: unknown, lines: () => readonly string[]): void {
		if (this.json) {
			this.terminal.printJson(json);
		} else {
			this.terminal.print(lines());
		}
	}

	/** Prints a list of a noun's rows. */
	list<Row>(noun: Noun<Row>, rows: readonly Row[]): void {
		const width = this.#globals.wide ? Number.POSITIVE_INFINITY : this.terminal.width;
		this.show(rows.map(noun.json), () => toTable(noun, rows, width));
	}

	/** Streams CSV, and stops if the reader has closed the output. Throws a usage error (64) with `--json`. */
	async csv(text: AsyncIterable<string>): Promise<void> {
		if (this.json) {
			throw new CliError('usage', '--csv and --json cannot be combined', 'leave one out');
		}
		for await (const chunk of text) {
			if (!(await this.terminal.writeText(chunk))) {
				return;
			}
		}
	}

	/** Prints one row of a noun, with additional lines. */
	printRow<Row>(
		noun: Noun<Row>,
		row: Row,
		{json, lines = []}: {readonly json?: object; readonly lines?: readonly string[]} = {},
	): void {
		this.show(json ? {...(noun.json(row) as object), ...json} : noun.json(row), () => [
			...toLines(noun, row, this.terminal.width),
			...lines,
		]);
	}

	/** Returns a progress line; `unit` names what is counted, such as `lines`. */
	progress(unit: string): Progress {
		return new Progress(this.terminal, this.tools.clock, unit);
	}

	/** Asks for confirmation before data is destroyed. Throws unless the answer is yes. */
	async confirm(question: string, yes: boolean | undefined): Promise<void> {
		if (yes) {
			return;
		}
		if (!this.terminal.canAsk) {
			const problem = 'this destroys data, and there is no terminal to confirm it';
			throw new CliError('usage', problem, 'add --yes to confirm');
		}
		const prompt = createInterface({input: process.stdin, output: process.stderr});
		const answer = await prompt.question(`${question} [y/N] `);
		prompt.close();
		if (!/^y(es)?$/i.test(answer.trim())) {
			throw new CliError('other', 'nothing was changed', 'answer y to continue');
		}
	}
}

/**
 * Pauses before each transaction for as long as the previous one took, so that a command with thousands of transactions
 * leaves half of the time to other writers.
 */
export function pacedWriter(writer: Writer, {monotonic}: Pick<Clock, 'monotonic'> = systemClock): Writer {
	let pausedUntil = 0;
	return {
		...writer,
		async transaction(work) {
			const pauseMs = pausedUntil - monotonic();
			if (pauseMs > 0) {
				await sleep(pauseMs);
			}
			const startedAt = monotonic();
			try {
				return await writer.transaction(work);
			} finally {
				const endedAt = monotonic();
				pausedUntil = endedAt + (endedAt - startedAt);
			}
		},
	};
}

/** Finds a workspace by id, unique prefix or name. Throws a data error (65). */
export async function resolveWorkspace(reader: Knex, name: string): Promise<Workspace> {
	const exact = isId('ws', name) ? await findWorkspace(reader, name) : undefined;
	// Ids come first: the admin of a workspace chooses its name, which must not shadow the id of another one.
	const byPrefix =
		exact || !name.startsWith('ws_') ? [] : (await listWorkspaces(reader)).filter(({id}) => id.startsWith(name));
	const byName = byPrefix.length === 0 ? await findWorkspaceByName(reader, name) : undefined;
	const workspace = exact ?? (byPrefix.length === 1 ? byPrefix[0] : byName);
	if (!workspace) {
		throw new CliError('data', `workspace ${name} not found`, 'see mailctl workspace list');
	}
	return workspace;
}

/** The default workspace: its configured `key`, and its row if it exists. */
type DefaultWorkspace = {
	readonly all: readonly Workspace[];
	readonly key: string | null;
	readonly row: Workspace | undefined;
};

function defaultWorkspace({workspace, dataDir}: Settings, all: readonly Workspace[]): DefaultWorkspace {
	const key = workspace ?? readUsedWorkspace(dataDir);
	const only = all.length === 1 ? all[0] : undefined;
	const row = key === null ? only : (all.find(({id}) => id === key) ?? all.find(({name}) => name === key));
	return {all, key, row};
}

/** Throws if no workspace exists, if several exist without a default, or if the default does not exist. */
function requireDefault({workspace, dataDir}: Settings, {all, key, row}: DefaultWorkspace): Workspace {
	if (row) {
		return row;
	}
	if (all.length === 0) {
		throw new CliError('data', 'no workspace exists yet', 'create one with mailctl workspace create --name NAME');
	}
	const names = all.map(({name}) => name).slice(0, maxListed);
	const listed = [...names, ...(all.length > names.length ? ['…'] : [])].join(', ');
	if (key === null) {
		const fix = 'select one with --workspace ID|NAME, or set a default with mailctl workspace use NAME';
		throw new CliError('usage', `several workspaces exist (${listed})`, fix);
	}
	const source = workspace === null ? usedWorkspaceFile(dataDir) : 'MAILCTL_WORKSPACE';
	const fix = workspace === null ? 'choose another with mailctl workspace use NAME' : 'fix it';
	throw new CliError('data', `${source} names the workspace ${key}, which does not exist (existing: ${listed})`, fix);
}

/** The maximum number of workspaces, or of matching ids, that an error considers. */
const maxListed = 10;

/**
 * Chooses the exact id, else the only one with the prefix. Of several, the one in the default workspace is chosen,
 * because templates of different workspaces may share an id.
 */
async function chooseId(
	text: string,
	matches: readonly OwnedId[],
	findDefault: () => Promise<string | undefined>,
): Promise<OwnedId | undefined> {
	const exact = matches.filter(({id}) => id === text);
	const ids = exact.length > 0 ? exact : matches;
	if (ids.length < 2) {
		return ids[0];
	}
	const defaultId = await findDefault();
	const inDefault = ids.filter(({workspace_id: id}) => id === defaultId);
	if (inDefault.length === 1) {
		return inDefault[0];
	}
	if (exact.length > 0) {
		throw new CliError('data', `several workspaces have ${text}`, 'select one with --workspace ID|NAME');
	}
	const examples = ids.slice(0, 3).map(({id}) => id);
	const listed = [...examples, ...(ids.length > examples.length ? ['…'] : [])].join(', ');
	throw new CliError('data', `${text} is ambiguous (${listed})`, 'use a longer prefix');
}

/** Returns the user who runs the command, as the actor of its changes. */
export function operator(): Operator {
	const sudoUser = processEnvironment().SUDO_USER;
	return {actor: `cli:${userName()}`, from: hostname(), ...(sudoUser && {sudoUser})};
}
