// The fleet.

import { html, mount } from "./components.js";
import { Fleet } from "./panels/fleet.js";

mount("chokaq-panels", html`<${Fleet} full />`);
