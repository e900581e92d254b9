import {writeFileSync} from 'node:fs';
import {mailctl} from '../commands.ts';
import {manPage} from './man-page.ts';
import {cliPage} from './page.ts';

const program = await mailctl();
writeFileSync('docs/reference/cli.md', cliPage(program));
writeFileSync('docs/reference/mailctl.1', manPage(program));
