import type {Route, Visit} from './route.ts';

// Pages of a workspace are served below `/w/{workspace}`. They write their links without it; `answers.ts` adds it.

type Workspace = Pick<Visit['workspace'], 'id' | 'name'>;

/** Whether a name may stand for an id in paths. Ids contain an underscore, so no name can be mistaken for one. */
export const isSlug = (name: string): boolean => /^[a-z0-9][a-z0-9-]{0,62}$/.test(name);

/** The attributes that contain paths. A form that changes something is told from a search by its method. */
const pathAttributes = ' method="post" action| formaction| hx-[a-z:]+| src| href| action';

export const rootOf = ({id, name}: Workspace): string => `/w/${isSlug(name) ? name : id}`;

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
