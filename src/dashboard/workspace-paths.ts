import type {Knex} from 'knex';
import type {SignedIn} from '../resources/users/sessions.ts';
import {findWorkspace, findWorkspaceByName, type Workspace} from '../resources/workspaces/store.ts';
import type {Route} from './route.ts';

// Pages of a workspace are served below `/w/{workspace}`. They write their links without it; `answers.ts` adds it.

/** The names that may stand for an id in paths. Ids contain an underscore, so no name can be mistaken for one. */
const slug = /^[a-z0-9][a-z0-9-]{0,62}$/;
/** The attributes that contain paths. That of a form which changes something comes first. */
const pathAttributes = ' method="post" action| formaction| hx-[a-z:]+| src| href| action';

export const rootOf = ({id, name}: Pick<Workspace, 'id' | 'name'>): string => `/w/${slug.test(name) ? name : id}`;

/** Returns the workspace that a path names, if it exists and the user may see it. */
export async function findInPath(reader: Knex, {user}: SignedIn, text: string): Promise<Workspace | undefined> {
	const found = slug.test(text)
		? await findWorkspaceByName(reader, text)
		: /^\w{1,80}$/.test(text) && (await findWorkspace(reader, text));
	return found && [null, found.id].includes(user.workspaceId) ? found : undefined;
}

/** Adds the workspace to paths of its pages; other paths stay as they are. */
export type WorkspacePaths = {
	readonly inPath: (path: string, workspace: Workspace | null) => string;
	readonly inMarkup: (markup: string, workspace: Workspace | null) => string;
};

export function createWorkspacePaths(routes: readonly Route[]): WorkspacePaths {
	const segments = routes.flatMap(({path, withoutWorkspace}) => (withoutWorkspace ? [] : [path.split('/')[1]]));
	const path = `/(?:${[...new Set(segments)].join('|')})(?![\\w-])`;
	const start = new RegExp(`^(?=${path})`);
	// Texts cannot contain a match, because their quotes are escaped.
	const attributes = new RegExp(`(${pathAttributes})="(?=${path})`, 'g');
	return {
		inPath: (to, workspace) => (workspace === null ? to : to.replace(start, rootOf(workspace))),
		inMarkup(markup, workspace) {
			if (workspace === null) {
				return markup;
			}
			const [named, exact] = [rootOf(workspace), `/w/${workspace.id}`];
			// Another workspace may get the name while the page is open, so only links that people may share have it.
			return markup.replace(
				attributes,
				(_, attribute: string) => `${attribute}="${/^ (?:href|action)$/.test(attribute) ? named : exact}`,
			);
		},
	};
}
