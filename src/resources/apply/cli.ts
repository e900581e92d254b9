import {CliError} from '../../cli/fault.ts';
import {readInput} from '../../cli/files.ts';
import type {CliCommand} from '../../cli/program.ts';
import type {Session} from '../../cli/session.ts';
import type {Terminal} from '../../cli/terminal.ts';
import {printable, wrapped} from '../../cli/terminal-text.ts';
import {utf8Text} from '../../kit/text.ts';
import {storeTime} from '../../kit/time.ts';
import {ownHosts} from '../domains/domain-records.ts';
import {AddressGuard, toGuard} from '../webhooks/address-guard.ts';
import {withKnownRoute} from '../workspaces/apply.ts';
import {checkPoolAndRoute} from '../workspaces/cli.ts';
import {checkRetention} from '../workspaces/rules.ts';
import type {Settings} from '../workspaces/settings.ts';
import {findWorkspaceByName, listWorkspaces} from '../workspaces/store.ts';
import {type Change, differences, perform} from './apply.ts';
import type {ChangeResult, Problem} from './declaration.ts';
import {documentVersion} from './document.ts';
import {readDocument} from './read-document.ts';
import {readState, toDeclared} from './state.ts';

type Options = {readonly file: string; readonly dryRun?: boolean; readonly yes?: boolean};

/** A change that was made, with its result. */
export type Step = {readonly change: Change; readonly result: ChangeResult};

/**
 * Changes the store to match a file (docs/guide/declared.md): prints the differences, asks before it removes anything,
 * and makes one change at a time. `--json`:
 * `{"dry_run","changes":[{"workspace","action","kind","name","fields","done",…}]}`.
 */
export function applyCommand(command: CliCommand): void {
	command
		.sample('mailctl apply -f mailctl.yaml --dry-run')
		.yesOption()
		.requiredOption('-f, --file <file>', 'the file, in the format of mailctl export; - is standard input')
		.option('--dry-run', 'print the changes without making them')
		.does(apply, {makesStore: ({dryRun}) => !dryRun});
}

async function apply(session: Session, {file, dryRun = false, yes}: Options): Promise<void> {
	const changes = await readPlan(session, file);
	const {terminal} = session;
	if (!session.json) {
		terminal.print(
			changes.length === 0 ? ['Nothing to change.'] : changes.flatMap(change => changeLines(change, terminal)),
		);
	}
	const steps: Step[] = [];
	try {
		if (!dryRun) {
			await confirmRemovals(session, changes, yes);
			await performAll(session, changes, steps);
		}
	} finally {
		if (session.json) {
			terminal.printJson({dry_run: dryRun, changes: changes.map((change, index) => view(change, steps[index]))});
		} else {
			terminal.print(secretLines(steps, terminal));
		}
	}
	if (!session.json && steps.length > 0) {
		terminal.print(['', steps.length === 1 ? 'Made 1 change.' : `Made ${steps.length} changes.`]);
	}
}

/** Returns the changes to make, all of them validated. Throws bad data (65). */
async function readPlan(session: Session, file: string): Promise<readonly Change[]> {
	const read = readDocument(utf8Text(await readInput(file)));
	if (!read.ok) {
		throw refused(file, read.problems);
	}
	const reader = await session.reader();
	const selected = await session.chosenWorkspace();
	const guard = new AddressGuard(toGuard(session.settings()));
	const rules = {
		now: storeTime(session.tools.clock.now()),
		urlProblem: (url: string) => guard.urlProblem(url),
	};
	const changes: Change[] = [];
	const problems: Problem[] = [];
	for (const [index, workspace] of read.workspaces.entries()) {
		if (selected && selected.name !== workspace.name) {
			continue;
		}
		const row = await findWorkspaceByName(reader, workspace.name);
		const requested = withKnownRoute(workspace, row, await session.vault());
		const difference = differences(row && (await readState(reader, row, rules.now)), requested, rules);
		changes.push(...difference.changes);
		problems.push(
			...difference.problems.map(({path, message}) => ({path: ['workspaces', index, ...path], message})),
		);
	}
	if (problems.length > 0) {
		throw refused(file, read.describe(problems));
	}
	for (const change of changes) {
		if (change.noun === null) {
			const changed = change.declared as Partial<Settings>;
			checkPoolAndRoute(session, changed.source_pool ?? null, changed.route ?? null);
			checkRetention(changed, session.settings().retentionDays);
		}
	}
	return changes;
}

function refused(file: string, problems: readonly string[]): CliError {
	const name = file === '-' ? 'standard input' : file;
	return new CliError('data', `${name} cannot be applied`, 'fix the problems above; nothing was changed', problems);
}

async function confirmRemovals(session: Session, changes: readonly Change[], yes: boolean | undefined): Promise<void> {
	const removals = changes.filter(({action}) => action === 'remove').length;
	if (removals > 0) {
		await session.confirm(
			`Remove the entries marked with - (${removals})? Queued messages of removed senders will not be sent.`,
			yes,
		);
	}
}

async function performAll(session: Session, changes: readonly Change[], steps: Step[]): Promise<void> {
	const parts = {
		reader: await session.reader(),
		write: session.write,
		tools: session.tools,
		vault: await session.vault(),
		ownHosts: ownHosts(session.settings()),
	};
	try {
		for (const change of changes) {
			const result = await perform(parts, change);
			if (result === undefined) {
				throw new CliError(
					'temporary',
					`${change.kind} ${change.name} changed in the meantime`,
					'apply the file again',
				);
			}
			steps.push({change, result});
		}
	} catch (error) {
		const remaining = changes.length - steps.length;
		session.terminal.warn(
			`mailctl: ${steps.length} changes were made and ${remaining} were not, apply the file again for the rest`,
		);
		throw error;
	}
}

function view({workspace, action, kind, name, fields}: Change, step: Step | undefined) {
	const {id, key, signing_secret} = step?.result ?? {};
	return {workspace, action, kind, name, fields, done: step !== undefined, id, key, signing_secret};
}

const signs = {add: ['+', 'good'], change: ['~', 'doubtful'], remove: ['-', 'bad']} as const;

/** `+ topic news  name: Monthly news`, `~ key app  rate_limit: none → 10/60`, `- sender no-reply@shop.example`. */
export function changeLines({workspace, kind, name, action, fields}: Change, {width, tint}: Terminal): string[] {
	const [sign, tone] = signs[action];
	const location = kind === 'workspace' ? '' : ` in ${workspace}`;
	const details = Object.entries(fields).map(([field, {from, to}]) => {
		if (action === 'add') {
			return `${field}: ${formatValue(to)}`;
		}
		// Masked passwords look the same, even if they differ.
		const before = from === to ? 'another password for ' : `${formatValue(from)} → `;
		return `${field}: ${before}${formatValue(to)}`;
	});
	return [
		tint(`${sign} ${kind} ${printable(name)}${printable(location)}`, tone),
		...details.flatMap(detail => wrapped(printable(detail), width, '    ')),
	];
}

function formatValue(value: unknown): string {
	return Array.isArray(value) ? value.join(' ') : String(value ?? 'none');
}

/** Formats the new keys and secrets, which can be shown only this once. */
export function secretLines(steps: readonly Step[], {bold}: Terminal): string[] {
	const secrets = steps.flatMap(({change, result}) => {
		const secret = result?.key ?? result?.signing_secret;
		return secret === undefined
			? []
			: [[`${change.kind} ${printable(change.name)} in ${printable(change.workspace)}`, secret]];
	});
	const notice = secrets.length > 0 ? ['', 'Store these now: keys are not shown again.'] : [];
	return [...notice, ...secrets.flatMap(([name = '', secret = '']) => [`  ${name}`, `  ${bold(secret)}`])];
}

/** Prints all workspaces, or that of `--workspace`, as a document (docs/guide/declared.md), without secrets. */
export function exportCommand(command: CliCommand): void {
	command.sample('mailctl export > mailctl.yaml').does(async session => {
		const reader = await session.reader();
		const selected = await session.chosenWorkspace();
		const rows = selected ? [selected] : await listWorkspaces(reader);
		const now = storeTime(session.tools.clock.now());
		const workspaces = [];
		for (const row of rows.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
			workspaces.push(toDeclared(await readState(reader, row, now)));
		}
		const {stringify} = await import('yaml');
		const document = {version: documentVersion, workspaces};
		session.show(document, () => [stringify(document, {lineWidth: 0}).trimEnd()]);
	});
}
