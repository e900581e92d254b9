import {maskPasswords} from '../../config/parsers.ts';
import {hasPassword, withPasswords} from '../../mail/route.ts';
import type {Vault} from '../../store/sealed.ts';
import type {ApplyParts, ChangeResult, Problem} from '../apply/declaration.ts';
import {changeWorkspace, createWorkspace, type WorkspaceInput} from './rules.ts';
import type {Settings} from './settings.ts';
import type {Workspace} from './store.ts';

/** What a file declares about a workspace itself. Absent settings remain unchanged. */
type Declared = {readonly name: string; readonly settings?: Partial<Settings>};

/** The defaults of the settings of a new workspace. All others default to `null`. */
export const settingDefaults = {track_opens: false, track_clicks: false};

/** Returns the settings with each part of the branding as a separate field. */
export function flatSettings({branding, ...settings}: Partial<Settings>): object {
	const brandingFields = Object.entries(branding ?? {}).map(([name, value]) => [`branding.${name}`, value]);
	return {...settings, ...Object.fromEntries(brandingFields)};
}

/** Returns the problems with the settings in a file. `topics` are the codes of the topics after the changes. */
export function settingProblems(
	{settings: {route, default_topic: topic} = {}}: Declared,
	before: Partial<Settings> | undefined,
	topics: readonly unknown[],
): Problem[] {
	const problems: Problem[] = [];
	if (route?.includes(':***@') && route !== before?.route) {
		const message = 'has a masked password: enter the password, or omit route';
		problems.push({path: ['settings', 'route'], message});
	}
	if (topic && topic !== before?.default_topic && !topics.includes(topic)) {
		problems.push({path: ['settings', 'default_topic'], message: `requires ${topic} in topics`});
	}
	return problems;
}

/**
 * Masks the passwords of the declared route if it equals the stored one, as in the state that it is compared with. Only
 * the vault can tell whether a password differs.
 */
export function withKnownRoute<Given extends Declared>(
	declared: Given,
	row: Workspace | undefined,
	vault: Vault,
): Given {
	const {route} = declared.settings ?? {};
	if (!row?.route || !route || !hasPassword(route)) {
		return declared;
	}
	const stored = withPasswords(row.route, sealed => vault.open(row.id, sealed));
	const isKnown = stored === withPasswords(route, password => password);
	return isKnown ? {...declared, settings: {...declared.settings, route: maskPasswords(route)}} : declared;
}

/** Creates a workspace, or changes the one with the id. */
export async function applySettings(
	{write, tools, vault}: ApplyParts,
	name: string,
	{route, ...settings}: Partial<Settings>,
	id?: string,
): Promise<ChangeResult> {
	const input: Partial<WorkspaceInput> = {
		...settings,
		...(route !== undefined && {route: route === null ? null : {text: route, vault}}),
	};
	return await write(trx =>
		id === undefined ? createWorkspace(trx, tools, {...input, name}) : changeWorkspace(trx, tools, id, input),
	);
}
