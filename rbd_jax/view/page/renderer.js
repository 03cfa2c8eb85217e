// Shaders. All positions are relative to what the camera looks at, so that far from the world's origin they are exact.

const HEAD = "#version 300 es\nprecision highp float;\nprecision highp sampler2D;\nprecision highp sampler2DShadow;\n";

const BODIES = `${HEAD}
layout(location = 0) in vec3 point;
layout(location = 1) in vec3 normal;
layout(location = 2) in vec4 color;
layout(location = 3) in float body;
uniform sampler2D poses;
uniform int row;
uniform mat4 view;
out vec3 place;
out vec3 outward;
out vec4 paint;
vec3 turned(vec4 q, vec3 v) { return v + 2.0 * cross(q.yzw, cross(q.yzw, v) + q.x * v); }
void main() {
  ivec2 at = ivec2(2 * int(body), row + gl_InstanceID);
  vec4 q = texelFetch(poses, at + ivec2(1, 0), 0);
  place = texelFetch(poses, at, 0).xyz + turned(q, point);
  outward = turned(q, normal);
  paint = color;
  gl_Position = view * vec4(place, 1);
}`;

const SUN = `
uniform mat4 shadow;
uniform vec3 sun;
uniform float shade;  // how dark shadows are
uniform sampler2DShadow depths;
float sunlight(vec3 place) {
  vec3 at = 0.5 * (shadow * vec4(place, 1)).xyz + 0.5;
  if (shade == 0.0 || any(lessThan(at, vec3(0))) || any(greaterThan(at, vec3(1)))) return 1.0;
  at.z -= 0.0015;
#ifdef SLOW
  float lit = texture(depths, at);
#else
  vec2 step = 0.8 / vec2(textureSize(depths, 0));
  float lit = texture(depths, at + vec3(step, 0)) + texture(depths, at + vec3(-step, 0));
  lit = 0.25 * (lit + texture(depths, at + vec3(step.x, -step.y, 0)) + texture(depths, at + vec3(-step.x, step.y, 0)));
#endif
  return 1.0 - shade * (1.0 - lit);
}
`;

const SHADED = `${HEAD}${SUN}
in vec3 place;
in vec3 outward;
in vec4 paint;
uniform vec3 eye;
uniform vec2 veil;  // opacity, and share of white
out vec4 seen;
void main() {
  vec3 n = normalize(gl_FrontFacing ? outward : -outward), toward = normalize(eye - place);
  float facing = dot(n, sun), lit = facing > 0.0 ? facing * sunlight(place) : 0.0;
  vec3 sky = mix(vec3(0.26, 0.25, 0.24), vec3(0.46, 0.48, 0.52), 0.5 + 0.5 * n.z);
  float gloss = max(dot(n, normalize(sun + toward)), 0.0);
  gloss *= gloss, gloss *= gloss, gloss *= gloss, gloss *= gloss, gloss *= gloss;
  // Colours are mixed as their squares, which is nearly how light adds.
  vec3 light = paint.rgb * paint.rgb * (sky + 0.75 * lit) + 0.12 * gloss * lit;
  seen = vec4(mix(sqrt(light), vec3(1), veil.y), paint.a * veil.x);
}`;

const DEPTH = `${HEAD}
void main() {}`;

const GROUND = `${HEAD}
layout(location = 0) in vec2 corner;
uniform mat4 view;
uniform vec3 center, across, along;  // half the sides of what is drawn of it
uniform vec2 origin;  // where the centre is on the grid
out vec3 place;
out vec2 at;
void main() {
  place = center + corner.x * across + corner.y * along;
  at = origin + corner * vec2(length(across), length(along));
  gl_Position = view * vec4(place, 1);
}`;

const GRID = `${HEAD}${SUN}
in vec3 place;
in vec2 at;
uniform vec4 paint;
uniform vec3 back;  // the colour of the background
uniform float cell, far;
out vec4 seen;
float lines(float size) {
  vec2 x = at / size, width = fwidth(x), d = abs(fract(x - 0.5) - 0.5) / max(width, vec2(1e-6));
  vec2 line = (1.0 - min(d, 1.0)) * (1.0 - smoothstep(0.1, 0.5, width));
  return max(line.x, line.y);
}
void main() {
  float away = length(place) / far;
  if (away > 1.0) discard;
  vec3 color = mix(paint.rgb, vec3(0.35), max(0.22 * lines(cell), 0.4 * lines(10.0 * cell)));
  color *= 0.55 + 0.45 * sunlight(place);
  seen = vec4(mix(color, back, smoothstep(0.2, 1.0, away)), paint.a);
}`;

const BACK = [0.933, 0.945, 0.961];
const FEW = 16000; // triangles, where drawing is slow
const SUNWARD = unit([0.3, -0.4, 1]);

// Whether the browser draws without a graphics processor.
function inSoftware() {
  const gl = document.createElement("canvas").getContext("webgl2"), told = gl?.getExtension("WEBGL_debug_renderer_info");
  const name = gl?.getParameter(told ? told.UNMASKED_RENDERER_WEBGL : gl.RENDERER);
  gl?.getExtension("WEBGL_lose_context")?.loseContext();
  return /swiftshader|llvmpipe|softpipe|software|basic render/i.test(name);
}

class Renderer {
  constructor(canvas, recording) {
    this.canvas = canvas;
    this.slow = inSoftware(); // then less is drawn
    const gl = (this.gl = canvas.getContext("webgl2", { alpha: false, antialias: !this.slow }));
    if (!gl) throw new Error("This browser has no WebGL 2, which draws the model; a newer one does");
    this.recording = recording;
    this.shaded = this.program(BODIES, SHADED);
    this.deep = this.program(BODIES, DEPTH);
    this.ground = this.program(GROUND, GRID);
    const still = new Triangles(), { size } = recording;
    const marked = (draw) => {
      const first = still.corners;
      draw();
      return { first, count: still.corners - first };
    };
    const put = (surface) => ({
      ...still.add(numbers(surface.points), numbers(surface.normals), numbers(surface.faces), surface.rgba, surface.body),
      center: surface.center,
    });
    const opaque = recording.surfaces.filter((surface) => surface.rgba[3] >= 1), clear = recording.surfaces.filter((surface) => surface.rgba[3] < 1);
    let solid;
    this.opaque = marked(() => (solid = opaque.map(put)));
    this.whole = marked(() => (this.clear = clear.map(put)));
    if (this.opaque.count) this.whole = this.opaque; // of ghosts
    this.few = null; // fewer triangles instead of the opaque ones
    if (this.slow && this.opaque.count > 3 * FEW) {
      let fewer, cell = recording.radius / 400;
      do {
        cell *= 1.4;
        fewer = solid.map(({ part }, k) => coarse(part, still.faces[k].faces, cell));
      } while (fewer.reduce((sum, faces) => sum + faces.length, 0) > 3 * FEW);
      this.few = marked(() => fewer.forEach((faces, k) => still.addFaces(faces, solid[k].part)));
    }
    this.frames = marked(() => recording.bodies.forEach((_, body) => still.axes({ position: [0, 0, 0], quaternion: [1, 0, 0, 0] }, 0.5 * size, body)));
    this.sites = marked(() => recording.sites.forEach((site) => {
      still.axes(site, 0.3 * size, site.body);
      still.ball(site.position, 0.04 * size, [0.9, 0.65, 0.1, 1], site.body);
    }));
    this.still = this.buffers();
    this.fill(this.still, still, gl.STATIC_DRAW);
    this.marks = this.buffers();
    this.square = gl.createVertexArray();
    gl.bindVertexArray(this.square);
    gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ARRAY_BUFFER, new Float32Array([-1, -1, 1, -1, -1, 1, 1, 1]), gl.STATIC_DRAW);
    gl.enableVertexAttribArray(0);
    gl.vertexAttribPointer(0, 2, gl.FLOAT, false, 0, 0);
    this.poses = this.texture(gl.TEXTURE_2D, gl.NEAREST);
    this.depths = this.texture(gl.TEXTURE_2D, gl.LINEAR);
    this.resolution = this.slow ? 512 : 2048;
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_COMPARE_MODE, gl.COMPARE_REF_TO_TEXTURE);
    gl.texStorage2D(gl.TEXTURE_2D, 1, gl.DEPTH_COMPONENT24, this.resolution, this.resolution);
    this.target = gl.createFramebuffer();
    gl.bindFramebuffer(gl.FRAMEBUFFER, this.target);
    gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.DEPTH_ATTACHMENT, gl.TEXTURE_2D, this.depths, 0);
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    gl.blendFuncSeparate(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA, gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    gl.enable(gl.DEPTH_TEST);
    gl.depthFunc(gl.LEQUAL);
    this.sharpness = 1; // pixels drawn for one of the screen; fewer where drawing is slow
  }

  program(...sources) {
    const { gl } = this, made = gl.createProgram();
    sources.forEach((source, k) => {
      const shader = gl.createShader(k ? gl.FRAGMENT_SHADER : gl.VERTEX_SHADER);
      gl.shaderSource(shader, this.slow ? source.replace("\n", "\n#define SLOW\n") : source);
      gl.compileShader(shader);
      if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS) && !gl.isContextLost()) throw new Error(gl.getShaderInfoLog(shader));
      gl.attachShader(made, shader);
    });
    gl.linkProgram(made);
    if (!gl.getProgramParameter(made, gl.LINK_STATUS) && !gl.isContextLost()) throw new Error(gl.getProgramInfoLog(made));
    const places = {};
    return (values) => {
      gl.useProgram(made);
      for (const [name, value] of Object.entries(values)) {
        const place = (places[name] ??= gl.getUniformLocation(made, name));
        if (value.length === 16) gl.uniformMatrix4fv(place, false, value);
        else if (value.length) gl[`uniform${value.length}f`](place, ...value);
        else if (["row", "poses", "depths"].includes(name)) gl.uniform1i(place, value);
        else gl.uniform1f(place, value);
      }
    };
  }

  texture(kind, filter) {
    const { gl } = this, made = gl.createTexture();
    gl.bindTexture(kind, made);
    for (const name of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(kind, name, filter);
    for (const name of [gl.TEXTURE_WRAP_S, gl.TEXTURE_WRAP_T]) gl.texParameteri(kind, name, gl.CLAMP_TO_EDGE);
    return made;
  }

  buffers() {
    const { gl } = this, found = { array: gl.createVertexArray(), vertices: gl.createBuffer(), faces: gl.createBuffer() };
    gl.bindVertexArray(found.array);
    gl.bindBuffer(gl.ARRAY_BUFFER, found.vertices);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, found.faces);
    [[3, gl.FLOAT, 0], [3, gl.BYTE, 12], [4, gl.UNSIGNED_BYTE, 16], [1, gl.FLOAT, 20]].forEach(([size, kind, offset], place) => {
      gl.enableVertexAttribArray(place);
      gl.vertexAttribPointer(place, size, kind, kind !== gl.FLOAT, STRIDE, offset);
    });
    return found;
  }

  fill(buffers, triangles, usage) {
    const { gl } = this, { buffer, faces } = triangles.arrays;
    gl.bindVertexArray(buffers.array);
    gl.bindBuffer(gl.ARRAY_BUFFER, buffers.vertices);
    gl.bufferData(gl.ARRAY_BUFFER, buffer, usage);
    gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, faces, usage);
  }

  draw({ first, count }, instances = 1) {
    if (count && instances) this.gl.drawElementsInstanced(this.gl.TRIANGLES, count, this.gl.UNSIGNED_INT, 4 * first, instances);
  }

  // Poses of the samples, one row each, relative to the point that the camera looks at.
  upload(rows, origin) {
    const { gl } = this, width = 2 * (this.recording.bodies.length + 1), data = new Float32Array(4 * width * rows.length);
    rows.forEach((poses, row) => {
      poses.forEach(({ position, quaternion }, k) => {
        data.set(add(position, origin, -1), 4 * (width * row + 2 * k));
        data.set(quaternion, 4 * (width * row + 2 * k + 1));
      });
    });
    gl.activeTexture(gl.TEXTURE0);
    gl.bindTexture(gl.TEXTURE_2D, this.poses);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA32F, width, rows.length, 0, gl.RGBA, gl.FLOAT, data);
  }

  // The world as the sun sees it, in a box around the bodies, but for those that are far from most.
  castShadows(opaque, poses, origin) {
    const { gl, recording } = this, places = poses.slice(1).map(({ position }) => add(position, origin, -1));
    const middle = [0, 1, 2].map((k) => places.map((place) => place[k]).sort((a, b) => a - b)[places.length >> 1] ?? 0);
    let reach = recording.radius;
    places.forEach((place, body) => {
      const away = norm(add(place, middle, -1)) + recording.reach[body];
      if (away < 8 * recording.radius) reach = Math.max(reach, away);
    });
    const seen = lookingAlong(SUNWARD, [0, 1, 0], middle), box = new Float32Array(16);
    box[0] = box[5] = 1 / reach, box[10] = -1 / (4 * reach), box[15] = 1;
    const shadow = times(box, seen);
    gl.bindFramebuffer(gl.FRAMEBUFFER, this.target);
    gl.viewport(0, 0, this.resolution, this.resolution);
    gl.clear(gl.DEPTH_BUFFER_BIT);
    gl.enable(gl.POLYGON_OFFSET_FILL);
    gl.polygonOffset(2, 4);
    this.deep({ view: shadow, poses: 0, row: 0 });
    this.draw(opaque);
    gl.disable(gl.POLYGON_OFFSET_FILL);
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    return shadow;
  }

  // rows: the poses of the world and of the bodies of the sample, and of those of its ghosts; marks: Triangles on top.
  // fine: take the time that it takes.
  render(camera, rows, marks, shows, fine) {
    const { gl, canvas } = this, origin = camera.target, eye = add(camera.eye, origin, -1);
    const opaque = (!fine && this.few) || this.opaque, whole = (!fine && this.few) || this.whole;
    const ratio = (fine ? 1 : this.sharpness) * Math.min(window.devicePixelRatio || 1, 2);
    const width = Math.max(1, Math.round(ratio * canvas.clientWidth)), height = Math.max(1, Math.round(ratio * canvas.clientHeight));
    if (canvas.width !== width || canvas.height !== height) canvas.width = width, canvas.height = height;
    this.upload(rows, origin);
    gl.bindVertexArray(this.still.array);
    gl.disable(gl.BLEND);
    gl.disable(gl.CULL_FACE);
    gl.activeTexture(gl.TEXTURE1);
    gl.bindTexture(gl.TEXTURE_2D, null); // it is drawn to
    const shadow = this.castShadows(opaque, rows[0], origin), view = camera.view;
    gl.bindTexture(gl.TEXTURE_2D, this.depths);
    gl.viewport(0, 0, width, height);
    gl.clearColor(...BACK, 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    const common = { view, shadow, sun: SUNWARD, depths: 1, shade: 1 };
    for (const ground of this.recording.grounds) this.drawGround(ground, camera, common);
    gl.bindVertexArray(this.still.array);
    gl.disable(gl.CULL_FACE);
    this.shaded({ ...common, poses: 0, row: 0, eye, veil: [1, 0] });
    this.draw(opaque);
    gl.enable(gl.BLEND);
    gl.enable(gl.CULL_FACE);
    gl.depthMask(false);
    const distance = (range) => {
      const { position, quaternion } = rows[0][range.body + 1];
      return norm(add(add(position, turned(quaternion, range.center)), camera.eye, -1));
    };
    const far = this.clear.map((range) => [distance(range), range]).sort((a, b) => b[0] - a[0]);
    for (const [, range] of far)
      for (const side of [gl.FRONT, gl.BACK]) {
        gl.cullFace(side); // the far side of it first
        this.draw(range);
      }
    gl.depthMask(true);
    gl.cullFace(gl.BACK);
    if (rows.length > 1) {
      // Of ghosts the nearest is seen alone: depths first, then colours where they are.
      gl.colorMask(false, false, false, false);
      this.shaded({ row: 1, veil: [0.35, 0.25], shade: 0 });
      this.draw(whole, rows.length - 1);
      gl.colorMask(true, true, true, true);
      this.draw(whole, rows.length - 1);
    }
    gl.clear(gl.DEPTH_BUFFER_BIT);
    this.shaded({ row: 0, veil: [1, 0], shade: 0 });
    if (shows.frames) this.draw(this.frames);
    if (shows.sites) this.draw(this.sites);
    if (marks.corners) {
      this.fill(this.marks, marks, gl.DYNAMIC_DRAW);
      this.draw({ first: 0, count: marks.corners });
    }
  }

  // An endless plane, as far as it is seen, from its upper side.
  drawGround({ rgba, ...ground }, camera, common) {
    const [point, normal] = [ground.point, ground.normal].map((vector) => turned(this.recording.up, vector));
    const { gl } = this, far = 12 * Math.max(camera.distance, this.recording.radius);
    const across = unit(cross(Math.abs(normal[1]) < 0.9 ? [0, 1, 0] : [0, 0, 1], normal)), along = cross(normal, across);
    const middle = add(camera.target, normal, dot(add(point, camera.target, -1), normal));
    const cell = this.recording.cell, wrapped = (axis) => dot(add(middle, point, -1), axis) % (10 * cell);
    gl.enable(gl.CULL_FACE);
    gl.enable(gl.BLEND);
    gl.bindVertexArray(this.square);
    const center = add(middle, camera.target, -1);
    const origin = [wrapped(across), wrapped(along)];
    this.ground({ ...common, center, across: scaled(across, far), along: scaled(along, far), origin, paint: rgba, back: BACK, cell, far });
    gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
    gl.disable(gl.BLEND);
  }
}
