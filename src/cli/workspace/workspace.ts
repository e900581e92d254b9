import type {Command} from 'commander';
import {
	changeWorkspace,
	createWorkspace,
	pauseWorkspace,
	resumeWorkspace,
	type WorkspaceInput,
} from '../../admin/workspaces.ts';
import {isMailable} from '../../config/derive.ts';
import {openDataDir} from '../../data-folder/data-dir.ts';
import {writeUsedWorkspace} from '../../data-folder/used-workspace.ts';
import type {Branding} from '../../mail/branding.ts';
import {hasPassword} from '../../mail/route-choice.ts';
import type {Vault} from '../../store/sealed.ts';
import {listWorkspaces, type Workspace} from '../../store/workspaces.ts';
import {CliError} from '../fault.ts';
import {readInput} from '../files.ts';
import {
	colour,
	count,
	duration,
	email,
	label,
	locale,
	logoUrl,
	type none,
	orNull,
	route,
	timezone,
	unless,
	unlessDefault,
} from '../options.ts';
import {verb} from '../program.ts';
import {action, namedWorkspace, type Session} from '../session.ts';
import {deleteVerb} from './delete.ts';
import {showWorkspace, workspacesWith} from './view.ts';

type Options = {
	readonly name?: string;
	readonly locale?: string;
	readonly timezone?: string;
	readonly monthlyQuota?: number | typeof none;
	/** Milliseconds. */
	readonly queueLifetime?: number | typeof none;
	readonly pool?: string | typeof none;
	readonly route?: string | typeof none;
	readonly trackOpens?: boolean;
	readonly trackClicks?: boolean;
	readonly brandName?: string | typeof none;
	readonly brandLogo?: string | typeof none;
	readonly brandColor?: string | typeof none;
	readonly brandSupport?: string | typeof none;
};

export function workspaceCommands(workspace: Command): void {
	settingOptions(verb(workspace, 'create', 'Make a workspace', 'mailctl workspace create --name acme'), true).action(
		action<Options & {name: string}, []>(
			async (session, options) => {
				const input = await inputOf(session, options);
				const created = await session.write(trx => createWorkspace(trx, session.tools, {...input, name: options.name}));
				await showWorkspace(session, created ?? nameTaken(options.name));
			},
			{makesStore: () => true},
		),
	);

	verb(workspace, 'list', 'List workspaces, newest first', 'mailctl workspace list').action(
		action(async session => {
			const rows = await listWorkspaces(await session.reader());
			session.list(workspacesWith((await session.workspaceInUse())?.id), rows);
		}),
	);

	verb(workspace, 'show [workspace]', 'Show a workspace', 'mailctl workspace show acme').action(
		action<object, [string | undefined]>(async (session, _options, key) => {
			await showWorkspace(session, await chosen(session, key));
		}),
	);

	verb(
		workspace,
		'use <workspace>',
		'Choose the workspace of commands that name none, kept in the data folder',
		'mailctl workspace use acme',
	).action(
		action<object, [string]>(async (session, _options, key) => {
			const {id, name} = await chosen(session, key);
			const {dataDir, workspace: set} = session.storeSettings();
			// With PostgreSQL it may not be there yet.
			openDataDir({dataDir, asRoot: true});
			writeUsedWorkspace(dataDir, id);
			if (set !== null && set !== id && set !== name) {
				session.terminal.warn(`mailctl: MAILCTL_WORKSPACE is ${set} and goes before this choice, unset it`);
			}
			session.show({id, name}, () => [`commands that name no workspace use ${name} (${id}) from now on`]);
		}),
	);

	settingOptions(
		verb(
			workspace,
			'update [workspace]',
			'Change a workspace; the value none, or default, takes a setting back',
			'mailctl workspace update acme --monthly-quota 50000',
		),
		false,
	).action(
		action<Options, [string | undefined]>(async (session, options, key) => {
			const input = await inputOf(session, options);
			if (Object.keys(input).length === 0) {
				throw new CliError('usage', 'nothing is to be changed', 'give at least one of the options of --help');
			}
			const {id} = await chosen(session, key);
			const changed = await session.write(trx => changeWorkspace(trx, session.tools, id, input));
			await showWorkspace(session, changed ?? nameTaken(options.name));
		}),
	);

	verb(
		workspace,
		'pause [workspace]',
		'Refuse sends and hold what is queued',
		'mailctl workspace pause acme --reason "under review"',
	)
		.requiredOption('--reason <reason>', 'why; shown with the workspace and to callers of the API', label('--reason'))
		.action(
			action<{reason: string}, [string | undefined]>(async (session, {reason}, key) => {
				const found = await chosen(session, key);
				await showWorkspace(session, await session.write(trx => pauseWorkspace(trx, session.tools, found, reason)));
			}),
		);

	verb(
		workspace,
		'resume [workspace]',
		'Send again, held mail too; its reputation figures start over',
		'mailctl workspace resume acme',
	).action(
		action<object, [string | undefined]>(async (session, _options, key) => {
			const before = await chosen(session, key);
			const after = await session.write(trx => resumeWorkspace(trx, session.tools, before.id));
			if (after.reputation_since === before.reputation_since) {
				session.terminal.warn(`mailctl: ${after.name} is neither paused nor warned of, nothing was changed`);
			}
			await showWorkspace(session, after);
		}),
	);

	deleteVerb(workspace);
}

function settingOptions(command: Command, creates: boolean): Command {
	const named = creates
		? command.requiredOption('--name <name>', 'its name, unique', label('--name'))
		: command.option('--name <name>', 'a new name, unique', label('--name'));
	named
		.option('--locale <tag>', 'language where neither send nor contact has one', unless(locale))
		.option('--timezone <zone>', 'zone of dates where neither send nor contact has one', unless(timezone))
		.option(
			'--monthly-quota <n>',
			'messages accepted per calendar month',
			unless(count('--monthly-quota', 0, 2_000_000_000)),
		)
		.option('--queue-lifetime <duration>', 'how long delivery is tried', unlessDefault(duration('--queue-lifetime')))
		.option(
			'--pool <name>',
			'send from this pool of MAILCTL_SOURCE_POOLS',
			unlessDefault(text => text),
		)
		.option(
			'--route <route>',
			'mx, relay or URLs of smarthosts, - reads it from standard input; default: MAILCTL_DELIVERY',
			text => (text === '-' ? text : givenRoute(text)),
		)
		.option('--track-opens', 'record opens')
		.option('--track-clicks', 'record clicks')
		.option('--brand-name <name>', 'what recipients know it by, for its hosted pages', unless(label('--brand-name')))
		.option('--brand-logo <url>', 'its logo there, an https URL', unless(logoUrl('--brand-logo')))
		.option('--brand-color <#rrggbb>', 'its accent color there', unless(colour('--brand-color')))
		.option('--brand-support <address>', 'where recipients may write to', unless(email('--brand-support')));
	return creates ? named : named.option('--no-track-opens', 'do not').option('--no-track-clicks', 'do not');
}

const givenRoute = unlessDefault(route);

async function inputOf(session: Session, options: Options): Promise<Partial<WorkspaceInput>> {
	const {name, locale, timezone, monthlyQuota, queueLifetime, trackOpens, trackClicks} = options;
	const lifetime = queueLifetime === undefined ? undefined : orNull(queueLifetime);
	const branding = brandingOf(options);
	const sourcePool = options.pool === undefined ? undefined : orNull(options.pool);
	const given = options.route === '-' ? givenRoute((await readInput('-')).toString().trim()) : options.route;
	const route = given === undefined ? undefined : orNull(given);
	checkWishes(session, sourcePool ?? null, route ?? null);
	return {
		...(name !== undefined && {name}),
		...(trackOpens !== undefined && {trackOpens}),
		...(trackClicks !== undefined && {trackClicks}),
		...(Object.keys(branding).length > 0 && {branding}),
		...(locale !== undefined && {locale: orNull(locale)}),
		...(timezone !== undefined && {timezone: orNull(timezone)}),
		...(monthlyQuota !== undefined && {monthlyQuota: orNull(monthlyQuota)}),
		...(sourcePool !== undefined && {sourcePool}),
		...(route !== undefined && {route: route === null ? null : {text: route, vault: await vaultFor(session, route)}}),
		...(lifetime !== undefined && {queueLifetime: lifetime === null ? null : Math.ceil(lifetime / 1000)}),
	};
}

/** What the settings do not have would be passed over in silence. */
export function checkWishes(session: Session, pool: string | null, route: string | null): void {
	if (pool === null && route === null) {
		return;
	}
	const settings = session.settings();
	const pools = settings.sourcePools.map(({name}) => name);
	if (pool !== null && !pools.includes(pool)) {
		const mend = pools.length > 0 ? `use ${pools.join(', ')}` : 'add it there';
		throw new CliError('data', `there is no pool ${pool} in MAILCTL_SOURCE_POOLS`, mend);
	}
	if (route === 'relay' && settings.relays.length === 0) {
		throw new CliError(
			'data',
			'the route relay needs MAILCTL_RELAY_URL',
			'set it, or give the URL of the smarthost itself',
		);
	}
	if (route === 'mx' && !isMailable(settings.returnPathDomain)) {
		const what = `the route mx needs a return-path domain that others can mail to, and it is ${settings.returnPathDomain}`;
		throw new CliError('data', what, 'set MAILCTL_RETURN_PATH_DOMAIN');
	}
}

/** The secret keys are asked for only where there is something to seal. */
async function vaultFor(session: Session, route: string): Promise<Pick<Vault, 'seal'>> {
	return hasPassword(route) ? await session.vault() : {seal: (_owner, plain) => plain};
}

function brandingOf({brandName, brandLogo, brandColor, brandSupport}: Options): Partial<Branding> {
	return {
		...(brandName !== undefined && {name: orNull(brandName)}),
		...(brandLogo !== undefined && {logoUrl: orNull(brandLogo)}),
		...(brandColor !== undefined && {accent: orNull(brandColor)}),
		...(brandSupport !== undefined && {supportEmail: orNull(brandSupport)}),
	};
}

function nameTaken(name: string | undefined): never {
	throw new CliError('data', `there is a workspace ${name} already`, 'choose another name');
}

/** By id or name as argument, else by `--workspace`, else the only one. */
async function chosen(session: Session, key: string | undefined): Promise<Workspace> {
	return key === undefined ? await session.workspace() : await namedWorkspace(await session.reader(), key);
}
