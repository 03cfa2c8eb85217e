// Triangles with normals, colours and bodies, gathered and then put into one buffer.

const STRIDE = 24; // bytes of a vertex: position 12, normal 4, colour 4, body 4

class Triangles {
  parts = [];
  faces = [];
  vertices = 0;
  corners = 0;

  add(points, normals, faces, color, body) {
    const part = { points, normals, color: color.map((x) => Math.round(255 * x)), body, base: this.vertices };
    this.parts.push(part);
    this.vertices += points.length / 3;
    return { ...this.addFaces(faces, part), part };
  }

  // Triangles of vertices that are there.
  addFaces(faces, part) {
    const range = { first: this.corners, count: faces.length, body: part.body };
    this.faces.push({ faces, base: part.base });
    this.corners += faces.length;
    return range;
  }

  // A surface of revolution from a point along a vector: radius and height of its profile, as shares of `radius` and the vector.
  // Each part of the profile has its own normals, or, of a ball, each point.
  revolve(profile, from, along, radius, color, body, round = false) {
    const length = norm(along), z = unit(along), x = unit(cross(z, Math.abs(z[2]) < 0.9 ? [0, 0, 1] : [1, 0, 0])), y = cross(z, x);
    const sides = 16, points = [], normals = [], faces = [];
    for (let k = 0; k + 1 < profile.length; k++) {
      const [[r0, h0], [r1, h1]] = [profile[k], profile[k + 1]];
      const slope = unit([(h1 - h0) * length, (r0 - r1) * radius, 0]), base = points.length / 3;
      for (const [r, h] of [[r0, h0], [r1, h1]]) {
        const [outward, upward] = round ? [r, 2 * h - 1] : slope;
        for (let i = 0; i < sides; i++) {
          const c = Math.cos((2 * Math.PI * i) / sides), s = Math.sin((2 * Math.PI * i) / sides), out = add(scaled(x, c), y, s);
          points.push(...add(add(from, out, r * radius), along, h));
          normals.push(...add(scaled(out, outward), z, upward).map((n) => 127 * n));
        }
      }
      for (let i = 0; i < sides; i++) {
        const j = (i + 1) % sides;
        faces.push(base + i, base + j, base + sides + j, base + i, base + sides + j, base + sides + i);
      }
    }
    return this.add(points, normals, faces, color, body);
  }

  ball(center, radius, color, body = -1) {
    const profile = Array.from({ length: 9 }, (_, k) => [Math.sin((Math.PI * k) / 8), (1 - Math.cos((Math.PI * k) / 8)) / 2]);
    return this.revolve(profile, add(center, [0, 0, -radius]), [0, 0, 2 * radius], radius, color, body, true);
  }

  arrow(from, along, radius, color, body = -1) {
    const neck = Math.max(1 - (5 * radius) / norm(along), 0.4);
    return this.revolve([[0, 0], [1, 0], [1, neck], [2.4, neck], [0, 1]], from, along, radius, color, body);
  }

  axes({ position, quaternion }, length, body) {
    [[0.8, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.35, 0.85]].forEach((rgb, k) => {
      const axis = turned(quaternion, [0, 1, 2].map((i) => (i === k ? length : 0)));
      this.arrow(position, axis, length / 25, [...rgb, 1], body);
    });
  }

  get arrays() {
    const buffer = new ArrayBuffer(STRIDE * this.vertices), faces = new Uint32Array(this.corners);
    const floats = new Float32Array(buffer), signed = new Int8Array(buffer), bytes = new Uint8Array(buffer);
    let vertex = 0, corner = 0;
    for (const one of this.faces) for (let i = 0; i < one.faces.length; i++) faces[corner++] = one.base + one.faces[i];
    for (const part of this.parts)
      for (let i = 0; i < part.points.length; i += 3, vertex++) {
        for (let c = 0; c < 3; c++) floats[6 * vertex + c] = part.points[i + c], signed[STRIDE * vertex + 12 + c] = part.normals[i + c];
        for (let c = 0; c < 4; c++) bytes[STRIDE * vertex + 16 + c] = part.color[c];
        floats[6 * vertex + 5] = part.body + 1; // the world comes first
      }
    return { buffer, faces };
  }
}

// Fewer of the triangles of a part: of vertices in one cell that face the same way one stands for all.
function coarse({ points, normals }, faces, cell) {
  const chosen = new Map(), stands = new Uint32Array(points.length / 3), found = [];
  for (let i = 0; i < stands.length; i++) {
    let key = 0; // less than 2^53, so all of them differ
    for (let k = 0; k < 3; k++) key = 65536 * key + (Math.floor(points[3 * i + k] / cell) & 0xffff);
    for (let k = 0; k < 3; k++) key = 3 * key + Math.round(normals[3 * i + k] / 100);
    if (!chosen.has(key)) chosen.set(key, i);
    stands[i] = chosen.get(key);
  }
  for (let i = 0; i < faces.length; i += 3) {
    const [p, q, r] = [stands[faces[i]], stands[faces[i + 1]], stands[faces[i + 2]]];
    if (p !== q && q !== r && r !== p) found.push(p, q, r);
  }
  return found;
}
