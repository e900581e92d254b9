import type {DashboardParts} from '../parts.ts';
import type {Route} from '../route.ts';
import {checksPages} from './checks.ts';
import {logPages} from './log.ts';
import {overviewPages} from './overview.ts';
import {settingsPages} from './settings.ts';

/** How the installation is doing. */
export const healthPages = (parts: DashboardParts): readonly Route[] => [
	...overviewPages(parts),
	...checksPages(parts),
	...logPages(parts),
	...settingsPages(parts),
];
