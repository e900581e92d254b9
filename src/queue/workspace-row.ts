import type {Site} from './site.ts';

/** A site's turn is that of a workspace with lanes there. */
export type WorkspaceTurn = {readonly site: Site; readonly workspaceId: string};

/**
 * Sites that wait for their turn: workspaces take turns, and the sites of each. Where every try may wait for a time-out a
 * workspace with many such sites does not stand before another one's.
 */
export function createWorkspaceRow() {
	const bySite = new Map<Site, readonly string[]>();
	const byWorkspace = new Map<string, Set<Site>>();

	function remove(site: Site, workspaceId: string): void {
		const sites = byWorkspace.get(workspaceId);
		sites?.delete(site);
		if (sites?.size === 0) {
			byWorkspace.delete(workspaceId);
		}
	}

	return {
		/** The site waits for these workspaces' turns; where it waits already it keeps its place. None: it waits no more. */
		set(site: Site, workspaces: readonly string[]): void {
			for (const workspaceId of bySite.get(site) ?? []) {
				if (!workspaces.includes(workspaceId)) {
					remove(site, workspaceId);
				}
			}
			for (const workspaceId of workspaces) {
				const sites = byWorkspace.get(workspaceId) ?? new Set();
				byWorkspace.set(workspaceId, sites.add(site));
			}
			if (workspaces.length > 0) {
				bySite.set(site, workspaces);
			} else {
				bySite.delete(site);
			}
		},

		/** Whose turn it is. */
		first(): WorkspaceTurn | undefined {
			for (const [workspaceId, sites] of byWorkspace) {
				for (const site of sites) {
					return {site, workspaceId};
				}
			}
			return undefined;
		},

		/** It had its turn: the workspace goes to the end, the site leaves its row. */
		served({site, workspaceId}: WorkspaceTurn): void {
			const sites = byWorkspace.get(workspaceId);
			remove(site, workspaceId);
			if (sites && byWorkspace.delete(workspaceId)) {
				byWorkspace.set(workspaceId, sites);
			}
			this.set(
				site,
				(bySite.get(site) ?? []).filter(one => one !== workspaceId),
			);
		},

		get size(): number {
			return bySite.size;
		},
	};
}
