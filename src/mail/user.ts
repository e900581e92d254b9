/** What a user of the dashboard may do, each with all that the one before may: look, act on mail and lists, change the set-up. */
export const roles = ['viewer', 'operator', 'admin'] as const;
export type Role = (typeof roles)[number];

/** Whether a role may do what needs at least another one. */
export function mayActAs(role: Role, needed: Role): boolean {
	return roles.indexOf(role) >= roles.indexOf(needed);
}
